from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from components.errors import ConfigError
from tests.train.conftest import write_files
from train.command_line import Job, compose_jobs, parse


def jobs(conf_dir: Path, *argv: str) -> list[Job]:
    return compose_jobs(parse(["--config-path", str(conf_dir), *argv]))


def refused(conf_dir: Path, *argv: str) -> str:
    with pytest.raises(ConfigError) as error:
        jobs(conf_dir, *argv)
    return str(error.value)


def test_one_run_is_composed_and_resolved(conf_dir: Path) -> None:
    (job,) = jobs(conf_dir, "steps=3", "optimizer.lr=1e-4")
    assert (job.number, job.label, job.overrides) == (None, "", ["steps=3", "optimizer.lr=1e-4"])
    assert job.config.steps == 3
    assert job.config.optimizer.lr == 0.0001
    assert job.config.model.in_features == 64
    assert "hydra" not in job.config
    assert re.fullmatch(r"outputs/[-\d]+/[-\d]+_steps-3_lr-1e-4", job.folder.as_posix())


def test_flags_may_stand_anywhere_and_are_passed_on_in_long_form(conf_dir: Path) -> None:
    line = parse(["steps=3", "-m", "seed=1,2", "-cp", str(conf_dir)])
    assert line.multirun
    assert line.overrides == ["steps=3", "seed=1,2"]
    assert line.argv == ["--multirun", f"--config-path={conf_dir}", "steps=3", "seed=1,2"]


@pytest.mark.parametrize(
    "argv", [["--help"], ["-c", "job"], ["--info"], ["--hydra-help"], ["-c", "job", "--resolve"]]
)
def test_questions_are_left_to_hydra(argv: list[str]) -> None:
    assert parse(argv).passthrough


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--frobnicate"], "--frobnicate"),
        (["-m", "--run"], "Only one of"),
        (["--config-dir", "/no/such/folder"], "/no/such/folder"),
        (["--config-name", "confg"], "holds no confg.yaml; it holds config"),
        (["--experimental-rerun", "x.pickle"], ".hydra/overrides.yaml"),
    ],
)
def test_flags_that_cannot_be_served_are_refused(argv: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(argv)


@pytest.mark.parametrize("word", ["experiment=long", "+experiment=long"])
def test_a_group_of_the_defaults_list_takes_a_plus_or_none(conf_dir: Path, word: str) -> None:
    line = parse(["-cp", str(conf_dir), word])
    assert line.argv[-1] == "experiment=long"
    assert compose_jobs(line)[0].config.steps == 1000


@pytest.mark.parametrize("word", ["sweep=widths", "+sweep=widths"])
def test_a_group_outside_it_too_and_may_hold_a_sweep(conf_dir: Path, word: str) -> None:
    found = jobs(conf_dir, word)
    assert [(j.number, j.config.model.width) for j in found] == [(0, 1), (1, 2)]
    assert parse(["-cp", str(conf_dir), word]).multirun


def test_a_sweep_gives_the_jobs_in_the_sweepers_order(conf_dir: Path) -> None:
    found = jobs(conf_dir, "-m", "seed=1,2", "model.width=range(4,6)", "steps=3")
    assert [j.overrides for j in found] == [
        ["seed=1", "model.width=4", "steps=3"],
        ["seed=1", "model.width=5", "steps=3"],
        ["seed=2", "model.width=4", "steps=3"],
        ["seed=2", "model.width=5", "steps=3"],
    ]
    assert found[2].label == "job 2 (seed=2 model.width=4 steps=3)"
    assert found[3].config.model.width == 5
    assert found[2].folder.name == "2_seed-2_width-4"  # all share steps=3
    assert found[2].folder.parent.name.endswith("_sweep")


def test_a_sweep_is_refused_whole_and_names_the_job(conf_dir: Path) -> None:
    message = refused(conf_dir, "-m", "seed=0,1,x")
    assert message == "job 2 (seed=x): seed=x: expects int, got the text 'x'."


def test_needs_of_several_keys_are_told_together(conf_dir: Path) -> None:
    write_files(
        conf_dir,
        {
            "model/two.yaml": "a: ${data.in_features}\nb: ${data.classes}",
            "data/other.yaml": "in_features: 1\nclasses: 2",
        },
    )
    assert refused(conf_dir, "model=two", "data=text") == (
        "model.a, model.b need data.in_features, data.classes, which data=text does not provide "
        "(asked for by model=two). Take data=other, or set model.a=... model.b=..."
    )


def test_a_key_of_a_mapping_that_is_not_there_takes_a_plus(conf_dir: Path) -> None:
    message = refused(conf_dir, "nothing.of=1")
    assert message == (
        "nothing.of=1: there is no key nothing.of. The config has no mapping nothing: "
        "+nothing.of=1 adds it."
    )


def test_a_sweep_without_jobs_is_refused(conf_dir: Path) -> None:
    message = refused(conf_dir, "-m", "seed=range(0)")
    assert message.startswith("The sweep has no job: ")
    assert "seed=range(0)" in message


def test_a_mistake_of_all_jobs_is_told_once(conf_dir: Path) -> None:
    message = refused(conf_dir, "-m", "seed=0,1", "steps=0")
    assert message.count("steps=0: ") == 1


def test_the_users_groups_are_searched_and_listed(conf_dir: Path, tmp_path: Path) -> None:
    mine = write_files(tmp_path / "mine", {"model/mine.yaml": "width: 3"})
    (job,) = jobs(conf_dir, "-cd", str(mine), "model=mine")
    assert job.config.model.width == 3
    message = refused(conf_dir, "-cd", str(mine), "model=mien")
    assert "Did you mean mine?" in message
    assert "gpt, mine, mlp" in message


def test_missing_values_are_listed_together(conf_dir: Path, tmp_path: Path) -> None:
    text = "width: ???\nexport:\n  name: ???\n"
    mine = write_files(tmp_path / "mine", {"model/mine.yaml": text})
    message = refused(conf_dir, "-cd", str(mine), "model=mine")
    assert "model.width, model.export.name: must be given" in message
    assert "Add model.width=... model.export.name=..." in message


def test_a_group_left_open_lists_its_options(conf_dir: Path) -> None:
    text = (conf_dir / "config.yaml").read_text().replace("model: mlp", "model: ???")
    (conf_dir / "config.yaml").write_text(text)
    message = refused(conf_dir)
    assert message == (
        "model: an option must be chosen, as in model=gpt. The options are gpt, mlp."
    )


def test_an_interpolation_names_what_provides_the_key(conf_dir: Path) -> None:
    message = refused(conf_dir, "model=gpt")
    assert message == (
        "model.vocab_size needs data.vocab_size, which data=digits does not provide "
        "(asked for by model=gpt). Take data=text, or set model.vocab_size=..."
    )


def test_hydras_own_values_resolve_as_in_the_job(conf_dir: Path) -> None:
    (job,) = jobs(conf_dir, "+model.note=${hydra:job.name}")
    assert job.config.model.note == "train"


def test_hydra_is_left_as_it_was(conf_dir: Path) -> None:
    jobs(conf_dir, "-m", "seed=1,2")
    assert not GlobalHydra.instance().is_initialized()
    assert HydraConfig.instance().cfg is None


def test_composing_makes_nothing_and_imports_no_torch(conf_dir: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from train.command_line import compose_jobs, parse;"
        f"compose_jobs(parse(['-cp', {str(conf_dir)!r}, 'steps=3']));"
        "sys.exit('torch' in sys.modules)"
    )
    folder = tmp_path / "empty"
    folder.mkdir()
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": root})
    assert done.returncode == 0
    assert list(folder.iterdir()) == []
