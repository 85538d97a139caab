"""Hydra's sweeper of a search: jobs at points that Optuna chooses, by what earlier ones came to."""

from __future__ import annotations

from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from train.sweep.present import present
from train.sweep.search_options import searched
from train.sweep.study import Study


class Search(Sweeper):
    """Asks for as many points as there are slots, has their jobs run, and tells what came of it.

    Args:
        node: `hydra.sweeper`, which is read again where mistakes in it are told.
    """

    def __init__(self, **node: Any) -> None:
        self.launcher = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the search to its end; each job's end stands in its folder."""
        sweep = present()
        assert sweep is not None
        assert self.launcher is not None
        assert self.config is not None
        OmegaConf.save(self.config, sweep.folder / "multirun.yaml")
        options, space = searched(sweep.line)
        study = Study(sweep.folder, space, options, sweep.options.direction)
        while trials := study.ask(sweep.options.slots):
            points = [space.overrides(trial.params) for trial in trials]
            results = self.launcher.launch(points, initial_job_idx=len(sweep.cells))
            for trial, result in zip(trials, results, strict=True):
                study.tell(trial, result.return_value)
