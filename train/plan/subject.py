"""What is planned for: a model with its trace, or a bare number of parameters."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig
from torch import nn

from components.model.parameters import check_count
from components.parallel.base import Parallel, refuse_half_parameters
from components.precision import Precision
from train.kinds import build_objective
from train.plan.activations import Activations, sample_of
from train.plan.facts import Facts, bare, facts_of
from train.plan.holding import Holding, Share
from train.plan.optimizer_cost import cost_of
from train.plan.strategies import Kind
from train.plan.timeline import Timeline
from train.plan.trace import Way
from train.sizes import Sizes
from train.targets import build

BARE = "components.model.parameters.Parameters"


@dataclass(frozen=True)
class Subject:
    """A model with its trace, or a bare number of parameters.

    Attributes:
        timeline: None for a bare number.
    """

    facts: Facts
    model: nn.Module | None
    timeline: Timeline | None
    sample_bytes: int
    notes: tuple[str, ...]

    def share(
        self,
        config: DictConfig,
        precision: Precision,
        world_size: int,
        step: Sizes | None,
        gpu: bool,
    ) -> Share:
        """What one rank's figures follow from; one sample where there are no sizes of a step."""
        return Share(
            facts=self.facts,
            precision=precision,
            world_size=world_size,
            optimizer=cost_of(build(config.optimizer, "optimizer"), gpu),
            sample_bytes=self.sample_bytes,
            rows=step.micro_batch_size if step else 1,
            accumulation=step.accumulation if step else 1,
            gpu=gpu,
        )

    def held(self, kind: Kind, parallel: Parallel, share: Share) -> Holding:
        """A step replayed on the rank that needs the most."""
        holding = kind.holding(parallel, share, self.model)
        if self.timeline is None:
            holding.run_bare()
        else:
            holding.run(self.timeline.at(share.rows))
        return holding


def subject_of(
    config: DictConfig,
    precision: Precision,
    way: Way,
    activations: Activations,
    may_read: bool = True,
) -> Subject:
    """The subject of a config.

    Args:
        activations: traces so far; new ones are added.
        may_read: whether data that only show their shapes when they are read are prepared and read.

    Raises:
        ConfigError: when the model cannot be run on shapes alone, or the shapes are not known.
    """
    if config.model._target_ == BARE:
        note = (
            "a bare number of parameters: without activations, and without what is gathered for "
            "each layer"
        )
        return Subject(bare(check_count(config.model.count)), None, None, 0, (note,))
    notes: tuple[str, ...] = ()
    if config.compile:
        config = config.copy()
        config.compile = False
        notes = ("what compiled blocks keep is not known before they are: counted as plain ones'",)
    model = activations.model(config)
    refuse_half_parameters(model, precision)
    sample = sample_of(config, may_read)
    timeline = activations.timeline(config, model, build_objective(config, model), sample, way)
    length = getattr(model, "seq_len", None)
    if length is not None and sample.inputs.dim() == 1 and len(sample.inputs) != length:
        notes += (
            f"sequences of {len(sample.inputs):,} tokens, as data.seq_len says; the model takes up "
            f"to {length:,}, for which add data.seq_len={length}",
        )
    size = sample.inputs.nbytes + sample.targets.nbytes
    return Subject(facts_of(model), model, timeline, size, notes)
