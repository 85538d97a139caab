"""A run's own words, put before those of the command that goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import ConfigError
from train.command_line import parse
from train.run_words import continued


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that says its configs lie in its own folder."""
    folder = tmp_path / "run"
    (folder / ".hydra").mkdir(parents=True)
    (folder / "conf").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text("[seed=3]\n")
    (folder / ".hydra" / "hydra.yaml").write_text(
        "hydra:\n  job: {config_name: config}\n  runtime:\n    config_sources:\n"
        f"      - {{provider: command-line, schema: file, path: 'file://{folder}/conf'}}\n"
    )
    return folder


def test_configs_inside_a_folder_are_not_taken_from_its_own_words(run: Path) -> None:
    with pytest.raises(ConfigError, match="names configs inside itself"):
        continued(parse([f"resume={run}"]), run)


def test_the_command_may_name_them_itself(run: Path) -> None:
    line = continued(parse(["--config-dir", str(run / "conf"), f"resume={run}"]), run)
    assert f"--config-dir={run / 'conf'}" in line.argv
    assert "seed=3" in line.overrides
