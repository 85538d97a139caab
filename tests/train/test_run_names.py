from __future__ import annotations

import re
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from train import hydra_api, run_names
from train.command_line import parse
from train.run_names import LIMIT, short_name

FOLDERS: list[Path] = []


def task(config: DictConfig) -> None:
    FOLDERS.append(hydra_api.current_folder())


@pytest.fixture
def run(conf_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr("sys.argv", ["train"])
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    FOLDERS.clear()

    def enter(*argv: str) -> list[Path]:
        hydra_api.run(task, parse(["-cp", str(conf_dir), *argv]).argv)
        return [folder.relative_to(home) for folder in FOLDERS]

    return enter


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "default"),
        (["parallel=fsdp", "optimizer.lr=0.01"], "parallel-fsdp_lr-0.01"),
        (["data.path=a/b", "+model.x=[1,2]"], "path-a-b_x-1-2"),
        (["a.enabled=true", "b.enabled=false"], "a.enabled-true_b.enabled-false"),
        (["~scheduler"], "no-scheduler"),
        (["data.path=../.."], "path"),
        (["data.path=Größe"], "path-Gr-e"),
    ],
)
def test_short_names(overrides: list[str], name: str) -> None:
    assert short_name(overrides) == name


def test_long_names_are_cut_and_stay_apart() -> None:
    first, second = (short_name([f"data.path={'x' * 300}{end}"]) for end in "ab")
    assert len(first.encode()) == LIMIT
    assert first != second
    assert re.fullmatch(r"path-x+-[0-9a-f]{8}", first)


def test_a_run_folder_has_date_time_and_name(run) -> None:
    (folder,) = run("steps=3")
    assert re.fullmatch(r"outputs/\d{4}-\d\d-\d\d/\d\d-\d\d-\d\d-\d{6}_steps-3", folder.as_posix())
    # Hydra leaves its own folder and no log file.
    assert [path.name for path in folder.iterdir()] == [".hydra"]


def test_a_sweeps_folders_are_its_direct_children(run) -> None:
    long = "x" * 300
    folders = run("-m", f"+data.path=a/b,c/d,{long}")
    (sweep,) = {folder.parent for folder in folders}
    assert re.fullmatch(r"\d\d-\d\d-\d\d-\d{6}_sweep", sweep.name)
    names = [folder.name for folder in folders]
    assert names[:2] == ["0_path-a-b", "1_path-c-d"]
    assert all(len(name.encode()) <= 100 for name in names)
    kept = [list(OmegaConf.load(folder / ".hydra/overrides.yaml")) for folder in folders]
    assert kept == [["+data.path=a/b"], ["+data.path=c/d"], [f"+data.path={long}"]]


def test_a_folders_name_pastes_as_a_value(conf_dir: Path) -> None:
    name = short_name(["parallel=fsdp", "optimizer.betas=[0.9,0.95]", "data.path=a b"])
    (override,) = hydra_api.Composer(str(conf_dir)).parse([f"init_from=outputs/{name}"])
    assert override.value() == f"outputs/{name}"


def test_help_shows_groups_and_examples(run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run("--help")
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert "python -m train parallel=fsdp precision=bf16" in text
    assert "\ndata: digits, text\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_register_may_be_called_again() -> None:
    run_names.register()
    run_names.register()
    config = OmegaConf.create({"o": ["a=1"], "name": "${run_name:${o}}"})
    assert config.name == "a-1"


def test_what_a_reader_looks_for_comes_first() -> None:
    words = ["logger.wandb.project=mine", "steps=4", "precision=bf16", "parallel=fsdp"]
    assert short_name(words) == "precision-bf16_parallel-fsdp_steps-4_project-mine"
    assert short_name(["optimizer.lr=1e+30"]) == "lr-1e30"
