"""A config's identity is what the run is, not how it is started."""

from __future__ import annotations

from omegaconf import OmegaConf

from train.config_hash import config_hash, lasting


def test_how_a_run_is_started_does_not_count() -> None:
    plain = OmegaConf.create({"seed": 0, "data": {"size": 3}})
    started = OmegaConf.create(
        {
            "data": {"size": "${width}"},
            "width": 3,
            "seed": 0,
            "resume": "x",
            "resume_allow": ["seed"],
            "run_id": "mine",
            "dry_run": True,
        }
    )
    assert lasting(started) == {"data": {"size": 3}, "width": 3, "seed": 0}
    del started["width"]
    started.data.size = 3
    assert config_hash(started) == config_hash(plain)
    started.seed = 1
    assert config_hash(started) != config_hash(plain)
