"""What is written of a run while it goes: records, provenance, summary."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
from omegaconf import DictConfig, OmegaConf
from torch import nn

from components.cluster.cluster import Cluster
from components.cluster.devices import peak_flops
from components.cluster.preemption import Preempted
from components.cluster.ranks import Ranks, sum_over_ranks
from components.data.base import Data
from components.errors import ConfigError
from components.logger.base import Loggers, RunInfo
from components.logger.console import ConsoleLogger
from components.logger.jsonl import JsonlLogger
from components.logger.stream import ConsoleStream
from components.parallel.base import Parallel
from components.precision import Precision
from train import deterministic
from train.files import read_json, write_json
from train.kinds import build_loggers
from train.loop import Loop
from train.memory_watch import MemoryWatch, against_forecast
from train.meter import Meter, Scale
from train.nearest import hint
from train.observe import ComputeProbe, effective_dtypes
from train.run_title import sweep_of, title
from train.saved import Saved
from train.summary import Summary
from train.sweep.options import options_of

log = logging.getLogger(__name__)

NOT_RESULTS = ("train/grad_norm", "val/time_s")


class Recorder:
    """Takes a run's records on every rank; rank 0's reach the sinks and the run's folder."""

    def __init__(
        self,
        config: DictConfig,
        folder: Path,
        cluster: Cluster,
        ranks: Ranks,
        data: Data,
        model: nn.Module,
        precision: Precision,
        parallel: Parallel,
        console: ConsoleStream,
    ) -> None:
        self.config = config
        self.folder = folder
        self.cluster = cluster
        self.ranks = ranks
        self.data = data
        self.precision = precision
        self.parallel = parallel
        self.probe = ComputeProbe(model)
        self.memory = MemoryWatch(
            model, ranks.device, counts=config.memory_check is not None and not config.compile
        )
        flops_per_sample = getattr(model, "flops_per_sample", None)
        self.flops: float | None = flops_per_sample() if callable(flops_per_sample) else None
        self.summary = Summary()
        self.dtypes: dict[str, str] = {}
        self.data_record = data.record()
        self.records = 0
        self._provenance = read_json(folder / "provenance.json")
        sinks = [JsonlLogger(), ConsoleLogger(console), *build_loggers(config)]
        self.loggers = Loggers(sinks if ranks.main else [])

    @property
    def fingerprint(self) -> str | None:
        """The data set's."""
        found = self.data_record.get("fingerprint")
        return None if found is None else str(found)

    @contextmanager
    def recording(self, saved: Saved | None) -> Iterator[None]:
        """The sinks are open inside; an exception closes them as preempted or failed.

        Args:
            saved: the checkpoint that the run goes on from.
        """
        if saved:
            # What the last attempt saw stands until this one has taken a step.
            self.records, self.dtypes = saved.manifest.records, saved.manifest.dtypes
        baselines = self.data.baselines()
        if baselines:
            log.info("baselines: %s", _numbers(baselines))
        in_force: list[Any] = [None] * self.ranks.world_size
        dist.all_gather_object(in_force, deterministic.in_force(self.ranks.device.type))
        self._note(data=self.data_record, in_force=in_force)
        if self.ranks.main:
            for name, content in self.parallel.files().items():
                write_json(self.folder / name, content)
            # Other ranks' nodes may not have the record, where they share no file system.
            self.loggers.start(self._info())
        try:
            yield
        except BaseException as error:
            status = "preempted" if isinstance(error, Preempted) else "failed"
            self.loggers.finish(status, self.summary.metrics(set()))
            raise

    def _info(self) -> RunInfo:
        config = OmegaConf.to_container(self.config, resolve=True)
        assert isinstance(config, dict)
        return RunInfo(
            folder=self.folder,
            run_id=self._provenance["run"]["id"],
            name=title(self.folder),
            config={str(key): value for key, value in config.items()},
            cell=self._provenance.get("cell", {}),
            group=sweep_of(self.folder),
            steps=self.config.steps,
        )

    def meter(self) -> Meter:
        """The meter of this run's rates."""
        world, copies = self.ranks.world_size, self.ranks.world_size // self.parallel.dp_size
        peak = peak_flops(
            self.cluster.peak_flops, self.ranks.device, self.precision.compute, self.precision.tf32
        )
        scale = Scale(
            flops=self.flops,
            peak_flops=None if peak is None else peak * world,
        )
        # Ranks of one pipeline all read the same samples: those count once.
        return Meter(scale, lambda samples: sum_over_ranks(self.ranks, samples) // copies)

    def report(self, record: dict[str, Any]) -> None:
        """Pass one record on, stamped with the time."""
        self.records += 1
        self.summary.add(record)
        if "val/loss" in record:
            self._check_objective()
        self.loggers.log({"step": record["step"], "time": time.time(), **record})

    def _check_objective(self) -> None:
        """Alike on all ranks, once the first evaluation has shown which metrics there are.

        Raises:
            ConfigError: when the sweep's objective is none of them.
        """
        objective = options_of(self.config).objective
        if objective is not None and objective not in self.summary.last:
            names = sorted(self.summary.last)
            raise ConfigError(
                f"sweep.objective={objective} is none of the run's metrics. "
                f"{hint(objective, names)} There are {', '.join(names)}."
            )

    def note_dtypes(self) -> None:
        """Record the types that really run, once optimizer state exists."""
        self.dtypes = effective_dtypes(self.parallel, self.probe)
        log.info("dtypes: %s", ", ".join(f"{key} {value}" for key, value in self.dtypes.items()))
        self._note(dtypes=self.dtypes)

    def complete(self, loop: Loop, saving_s: float) -> None:
        """Write the summary. Call on all ranks.

        Args:
            saving_s: seconds that training stood still for checkpoints.
        """
        self._check_objective()
        memory = {"held": self.parallel.held().bytes(), "peak": self.memory.measured()}
        gathered: list[Any] = [None] * self.ranks.world_size
        dist.all_gather_object(gathered, memory)
        summary = {
            "steps": loop.step,
            "updates": loop.meter.updates,
            "skipped_steps": loop.meter.skipped,
            "stopped_early": loop.stopped_early(),
            **self.summary.metrics(loop.higher_is_better),
            "baselines": self.data.baselines(),
            "throughput": loop.meter.throughput(),
            "peak_memory_bytes": [rank["peak"] for rank in gathered],
            "memory": against_forecast(
                self._provenance.get("forecast"), [rank["peak"] for rank in gathered]
            ),
            "held_bytes": [rank["held"] for rank in gathered],
            "saving_s": saving_s,
            "dtypes": self.dtypes,
            "cell": self._provenance.get("cell", {}),
        }
        if self.ranks.main:
            write_json(self.folder / "summary.json", summary)
            result = {k: v for k, v in self.summary.last.items() if k not in NOT_RESULTS}
            if loop.stopped_early():
                log.info("stopped at step %d: %s", loop.step, loop.stopped_early())
            log.info("result: %s", _numbers(result))
            if baselines := self.data.baselines():
                log.info("beside the baselines: %s", _numbers(baselines))
        self.loggers.finish("completed", summary)

    def _note(self, **facts: Any) -> None:
        """Add facts to provenance.json."""
        if self.ranks.main:
            self._provenance.update(facts)
            write_json(self.folder / "provenance.json", self._provenance)


def _numbers(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())
