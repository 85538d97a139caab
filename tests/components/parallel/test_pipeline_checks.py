"""What a pipeline refuses before any process starts, and how it cuts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from components.errors import ConfigError
from components.parallel.base import Cell
from components.parallel.pipeline import Pipeline
from components.parallel.pipeline_stage import cut, stage_of, weights_of
from tests.components.parallel.pipeline_cases import Tiny
from tests.gang import FP32


def cell(model: nn.Module, world_size: int, local_world_size: int | None = None) -> Cell:
    return Cell(FP32, "cpu", world_size, local_world_size or world_size, model.to("meta"))


def test_blocks_are_dealt_evenly_and_the_first_stages_get_the_rest() -> None:
    assert [list(own) for own in cut(7, 3)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [len(own) for own in cut(4, 4)] == [1, 1, 1, 1]
    assert [len(own) for own in cut(3, 1)] == [3]


def test_names_lie_on_the_stage_of_their_part() -> None:
    names = ["stem.weight", "blocks.2.norm.bias", "blocks.10.mix.weight", "head.weight"]
    assert [stage_of(name, 12, 4) for name in names] == [0, 0, 3, 3]


def test_a_tied_weight_has_one_name_and_two_stages() -> None:
    weights = {w.name: w.stages for w in weights_of(Tiny(blocks=3, tied=True), 3)}
    assert weights["stem.weight"] == (0, 2)
    assert "head.weight" not in weights
    assert weights["blocks.1.mix.bias"] == (1,)


def test_degrees() -> None:
    assert Pipeline().dp_degree(4) == 1
    assert Pipeline().default_accumulation(4) == 8


def test_a_fitting_model_passes() -> None:
    Pipeline().check(cell(Tiny(blocks=4), 4))
    Pipeline().check(cell(Tiny(blocks=4, tied=True), 1))


def test_more_stages_than_blocks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"8 stages.* 3 blocks.*cluster\.nproc_per_node=3"):
        Pipeline().check(cell(Tiny(blocks=3), 8))
    nearest = r"cluster\.nnodes=2 cluster\.nproc_per_node=1"
    with pytest.raises(ConfigError, match=nearest):
        Pipeline().check(cell(Tiny(blocks=3), 8, local_world_size=4))


def test_a_model_that_is_no_stack_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Linear.*stem, blocks .* head"):
        Pipeline().check(cell(nn.Linear(2, 2), 2))


class Around(Tiny):
    """A residual around all blocks: not what a pipeline computes."""

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.stem(inputs)
        around = hidden
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden + around)


class Promised(Around):
    is_chain = True


class Broken(Promised):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


@pytest.mark.parametrize("kind", [Around, Broken])
def test_a_forward_of_its_own_is_refused(kind: type[Tiny]) -> None:
    cure = rf"parallel=pipeline .*{kind.__name__} .*Stack.*is_chain = True.*parallel=fsdp"
    with pytest.raises(ConfigError, match=cure):
        Pipeline().check(cell(kind(blocks=2), 2))


def test_a_forward_put_on_the_instance_is_refused() -> None:
    model = Tiny(blocks=2)
    model.forward = lambda inputs: 2 * Tiny.forward(model, inputs)  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="forward of its own"):
        Pipeline().check(cell(model, 2))


def test_a_promised_chain_passes() -> None:
    Pipeline().check(cell(Promised(blocks=2), 2))


def test_parameters_outside_the_stack_are_refused() -> None:
    model = Tiny(blocks=2)
    model.temperature = nn.Parameter(torch.ones(1))
    with pytest.raises(ConfigError, match=r"outside them: temperature"):
        Pipeline().check(cell(model, 2))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_fewer_micro_batches_than_stages_is_refused(schedule: str) -> None:
    pipeline = Pipeline(schedule)  # type: ignore[arg-type]
    pipeline.check_sizes(world_size=4, micro_batch_size=2, accumulation=4)
    same_batch = r"accumulation=1 .*2 stages.*accumulation=2 micro_batch_size=4"
    with pytest.raises(ConfigError, match=same_batch):
        pipeline.check_sizes(world_size=2, micro_batch_size=8, accumulation=1)
    # 3 samples cannot be cut into 4 micro-batches: the global batch has to grow.
    with pytest.raises(ConfigError, match=r"accumulation=4 \(a global batch of 4\)"):
        pipeline.check_sizes(world_size=4, micro_batch_size=1, accumulation=3)
