"""What is recorded of a run's surroundings, and what is not."""

from __future__ import annotations

from pathlib import Path

from train.provenance import environment, provenance, run_identity


def test_variables_that_bear_on_a_run_and_no_secret() -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "1",
        "SLURM_JOB_ID": "7",
        "WANDB_MODE": "offline",
        "WANDB_API_KEY": "secret",
        "SLURM_JOB_TOKEN": "secret",
        "PYTORCH_KEYRING": "secret",
        "HOME": "/home/me",
    }
    assert environment(variables) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "1",
        "SLURM_JOB_ID": "7",
        "WANDB_MODE": "offline",
    }


def test_all_packages() -> None:
    packages = provenance()["packages"]
    assert packages["torch"].startswith("2.")
    assert len(packages) > 20
    assert list(packages) == sorted(packages)


def test_a_copy_of_a_folder_has_another_identity(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    first = run_identity(None, one)
    assert first["folder"] == str(one)
    assert run_identity(first, one) == first
    assert run_identity(None, other)["id"] != first["id"]
    # Moved: nothing of that id is at the old place.
    assert run_identity(first, other) == {"id": first["id"], "folder": str(other)}
    one.mkdir()
    (one / "provenance.json").write_text(f'{{"run": {{"id": "{first["id"]}"}}}}')
    assert run_identity(first, other)["id"] != first["id"]
