from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.train.slurm.fake import FakeSlurm
from train.hydra_api import CONF

FILES = {
    "config.yaml": """
        defaults:
          - model: mlp
          - data: digits
          - optimizer: sgd
          - hydra: default
          - _self_
          - experiment: null
        steps: 10
        seed: 0
        clip_norm: 1.0
        """,
    "model/mlp.yaml": """
        _target_: probe_targets.Model
        width: 8
        in_features: ${data.in_features}
        """,
    "model/gpt.yaml": """
        _target_: probe_targets.Gpt
        vocab_size: ${data.vocab_size}
        """,
    "data/digits.yaml": "in_features: 64",
    "data/text.yaml": "vocab_size: 256",
    "optimizer/sgd.yaml": """
        _target_: torch.optim.SGD
        _partial_: true
        lr: 0.1
        """,
    "experiment/long.yaml": """
        # @package _global_
        steps: 1000
        """,
    "experiment/unpackaged.yaml": "steps: 1000",
    "sweep/widths.yaml": """
        # @package _global_
        hydra:
          mode: MULTIRUN
          sweeper:
            params:
              model.width: 1,2
        """,
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write indented texts as files of a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        path.write_text("\n".join(line[indent:] for line in lines) + "\n")
    return folder


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    """A small config folder of the project's shape, with its own Hydra settings."""
    folder = write_files(tmp_path / "conf", FILES)
    shutil.copytree(CONF / "hydra", folder / "hydra")
    return folder


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm that does nothing but answer."""
    return FakeSlurm.on_path(tmp_path / "bin", monkeypatch)
