"""What one micro-batch's forward and backward make, keep, drop and compute, without doing it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import _engine_run_backward

from components.objective import Objective
from components.parallel.base import loss_or_zero
from components.precision import Precision
from train.plan.costs import Costs
from train.plan.fake import make_fake
from train.plan.linear import LinearOfStage3
from train.plan.pretend import PretendGpu
from train.plan.tracker import Tracker

aten = torch.ops.aten

Event = tuple[str, str, int, float]
"""What happened, to whom, bytes, FLOP:

    `+` `-`        storages of activations are made and dropped; that of a weight's copy in another
                   type has the weight's name
    enter exit     a module's forward (also when it is computed once more)
    back done      a module's backward: its output's gradient is there; its input's is
    outputs loss   the model has returned; its loss is there
    make grad      the storage of a parameter's gradient is there; the gradient is, and handed over
    op             an operation of this type moves bytes and computes
"""


@dataclass(frozen=True)
class Sample:
    """One sample, as shapes and types: (inputs, targets), each without a dimension of rows."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Way:
    """How a step is computed, as far as it shows in what is kept.

    Attributes:
        precision: of the products.
        half: parameters are half copies of masters elsewhere (FSDP, ZeRO).
        gpu: as on a GPU.
        own_linear: linear layers keep their inputs as DeepSpeed's do at stage 3.
        tied: a weight that several parts of the model share is one; in a pipeline's stages it is
            one each.
    """

    precision: Precision
    half: bool
    gpu: bool
    own_linear: bool = False
    tied: bool = True


def trace(
    model: nn.Module, objective: Objective, sample: Sample, rows: int, way: Way
) -> list[Event]:
    """Run a micro-batch of `rows` samples through a fake copy of `model`, as a strategy would.

    Args:
        model: on the meta device, its blocks made to re-compute where the run does that.
    """
    copied = copy.deepcopy(model)
    with FakeTensorMode(), ExitStack() as during:
        half = way.precision.compute if way.precision.mixed and way.half else None
        make_fake(copied, half, way.tied)
        copied.train()
        inputs, targets = (
            torch.empty(rows, *t.shape, dtype=t.dtype) for t in (sample.inputs, sample.targets)
        )
        tracker = _Recorder([*copied.named_parameters()], [*copied.buffers(), inputs, targets])
        during.enter_context(tracker)
        during.enter_context(_hooked(copied, tracker))
        if way.own_linear:
            during.enter_context(LinearOfStage3())
        if way.gpu:
            during.enter_context(PretendGpu())
        loss = _loss(copied, objective, inputs, targets, way.precision, tracker)
        tracker.mark("loss", "")
        # Not loss.backward(): it would go out of PretendGpu, and blocks re-compute within it.
        _engine_run_backward(
            (loss,),
            (torch.ones_like(loss),),
            False,
            False,
            (),
            allow_unreachable=True,
            accumulate_grad=True,
        )
        del loss
    return tracker.events_in_order()


def _loss(
    model: nn.Module,
    objective: Objective,
    inputs: Tensor,
    targets: Tensor,
    precision: Precision,
    tracker: _Recorder,
) -> Tensor:
    """In the steps, and with the lives of tensors, that `TorchStrategy.step` has."""

    def forward() -> Tensor:
        with _autocast(precision):
            outputs = model(inputs)
        tracker.mark("outputs", "")
        return outputs.float()

    return loss_or_zero(objective, forward(), targets) * 1.0


def _autocast(precision: Precision) -> AbstractContextManager[None]:
    return torch.autocast("cpu", dtype=precision.compute) if precision.mixed else nullcontext()


class _Recorder(Tracker):
    """A tracker that also writes down modules, gradients, copies of weights and costs.

    Args:
        named: parameters by name.
        others: further tensors that are there before.
    """

    def __init__(self, named: list[tuple[str, Tensor]], others: list[Tensor]) -> None:
        super().__init__([*(p for _, p in named), *others])
        self.marks: list[tuple[int, Event, int | None]] = []  # (position among events, ...)
        self.costs = Costs()
        self.called = self._look
        self._weights = {p.untyped_storage()._cdata: name for name, p in named}
        self._casts: dict[int, str] = {}

    def mark(self, kind: str, name: str, size: int = 0, storage: int | None = None) -> None:
        self.marks.append((len(self.events), (kind, name, size, 0.0), storage))

    def _look(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if func is aten._to_copy.default and args[0].untyped_storage()._cdata in self._weights:
            number = self.note(result)
            assert number is not None
            self._casts[number] = self._weights[args[0].untyped_storage()._cdata]
        cost = self.costs.of(func, args, kwargs, result)
        if cost is not None:
            self.marks.append((len(self.events), ("op", *cost), None))

    def events_in_order(self) -> list[Event]:
        """Births, deaths and marks; a gradient's own storage counts from its make to its grad."""
        grads = {number: mark for _, mark, number in self.marks if number is not None}
        events: list[Event] = []
        at = 0
        for position, mark, _ in [*self.marks, (len(self.events), ("end", "", 0, 0.0), None)]:
            for kind, storage, size in self.events[at:position]:
                grad = grads.get(storage)
                if grad is None:
                    events.append((kind, self._casts.get(storage, ""), size, 0.0))
                elif kind == "+":
                    events.append(("make", grad[1], size, 0.0))
            at = position
            events.append(mark)
        return copies_by_name(_in_order_of_nodes(events[:-1]))


def copies_by_name(events: list[Event]) -> list[Event]:
    """Copies of weights that go at once, in the order of their names: autocast has them in none."""
    ordered: list[Event] = []
    copies: list[Event] = []
    for event in events:
        if event[0] == "-" and event[1]:
            copies.append(event)
            continue
        ordered += [*sorted(copies), event]
        copies = []
    return ordered + sorted(copies)


def _in_order_of_nodes(events: list[Event]) -> list[Event]:
    """Of two neighbours the later one's `done` before the earlier one's `back`.

    Both are told of the same gradient, at once. Strategies put a node of their own before a module
    and behind it, so there the later module's end comes first.
    """
    ordered: list[Event] = []
    backs: list[Event] = []
    for event in events:
        if event[0] == "back":
            backs.append(event)
            continue
        if event[0] != "done":
            ordered += backs
            backs = []
        ordered.append(event)
    return ordered + backs


@contextmanager
def _hooked(model: nn.Module, tracker: _Recorder) -> Iterator[None]:
    """Inside, modules and gradients leave marks."""
    handles: list[Any] = []
    for name, module in model.named_modules():
        handles += [
            module.register_forward_pre_hook(partial(_before, tracker, name)),
            module.register_forward_hook(partial(_after, tracker, name)),
        ]
    for name, p in model.named_parameters():
        if p.requires_grad:
            handles.append(p.register_post_accumulate_grad_hook(partial(_grad, tracker, name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(tracker: _Recorder, name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
    tracker.mark("enter", name)
    for tensor in args[:1]:
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            tensor.register_hook(partial(_passed, tracker, "done", name))


def _after(
    tracker: _Recorder, name: str, module: nn.Module, args: tuple[Any, ...], output: Any
) -> None:
    if isinstance(output, Tensor) and output.requires_grad:
        output.register_hook(partial(_passed, tracker, "back", name))
    tracker.mark("exit", name)


def _passed(tracker: _Recorder, kind: str, name: str, gradient: Tensor) -> None:
    tracker.mark(kind, name)


def _grad(tracker: _Recorder, name: str, p: Tensor) -> None:
    assert p.grad is not None
    number = tracker.note(p.grad)
    tracker.mark("grad", name, p.grad.nbytes, number)
    p.grad = None
