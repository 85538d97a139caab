from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from train.folder_words import check_config_folder, check_words


@pytest.mark.parametrize("word", ["steps=3", "~logger.wandb", "+model.hydra=1", "parallel=fsdp"])
def test_words_of_a_run(word: str) -> None:
    check_words([word], Path("r"), "resume")


@pytest.mark.parametrize(
    "word",
    [
        *("+hydra.callbacks.x._target_=evil.Hook", "hydra.job.env_set={PATH: bin}", "hydra=evil"),
        *("hydra/job_logging=evil", "++hydra.searchpath=[x]", "--help", "--config-dir=x", "-m"),
        *("hydra.launcher._target_=os.system", "~hydra.launcher"),
    ],
)
def test_what_a_run_does_not_write_there(word: str) -> None:
    with pytest.raises(ConfigError, match="could run anything") as refused:
        check_words(["steps=3", word], Path("r"), "resume")
    assert str(refused.value).startswith(f"resume=r: it says {word!r}")


def test_words_of_a_sweep() -> None:
    words = ["--multirun", "--config-dir=conf", "hydra/launcher=slurm", "hydra.launcher.time=5"]
    words += ["hydra.sweeper.n_trials=3", "hydra.sweep.dir=x", "parallel=ddp,fsdp"]
    check_words(words, Path("s"), "sweep.resume", sweep=True)
    for word in ("hydra.callbacks={}", "hydra.launcher._target_=os.system", "--cfg=job"):
        with pytest.raises(ConfigError, match=r"sweep\.resume=s: it says"):
            check_words([word], Path("s"), "sweep.resume", sweep=True)


def test_configs_inside_the_folder(tmp_path: Path) -> None:
    check_config_folder(str(tmp_path / "conf"), tmp_path / "outputs" / "r", "resume")
    with pytest.raises(ConfigError, match="names configs inside itself"):
        check_config_folder(str(tmp_path / "r" / ".." / "r" / "conf"), tmp_path / "r", "resume")
