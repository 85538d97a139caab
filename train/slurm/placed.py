"""The config of a job, in its run's folder: resolved, but for what only its nodes know."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from components.cluster.slurm import SOURCES
from train import hydra_api, places
from train.files import write_text
from train.places import SLURM

FILE = Path(".hydra") / "job.yaml"

STAND_IN = {
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NODELIST": "node-0",
    "SLURM_JOB_ID": "0",
}
"""In place of a step's variables while a job is composed that is to be submitted."""


def write(folder: Path, config: DictConfig, composed: DictConfig) -> None:
    """Write the config of a job.

    Args:
        config: resolved.
        composed: the same with interpolations.
    """
    kept = config.copy()
    cluster = OmegaConf.to_container(composed.cluster, resolve=False)
    assert isinstance(cluster, dict)
    with open_dict(kept):
        for key in SOURCES:
            if SLURM.asked(cluster.get(key)):
                kept.cluster[key] = cluster[key]
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, OmegaConf.to_yaml(kept))


def read(folder: Path) -> DictConfig:
    """The config on a node of the job.

    Raises:
        ConfigError: when the node is not where the job was to be.
    """
    places.register()
    config = OmegaConf.load(folder / FILE)
    assert isinstance(config, DictConfig)
    places.check(config)
    return hydra_api.resolved(config)
