"""What two real ranks do under ZeRO, measured in one launch for `test_zero.py`.

Each rank also trains the same model in plain torch on the whole global batch: the
reference that the ranks together must match.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from components.cluster.ranks import Ranks
from components.data.batch import Batch
from components.objective import IGNORE, CrossEntropy
from components.parallel.base import NamedParameters
from components.parallel.zero import Zero
from components.precision import Precision

WORLD = 2
FP32 = Precision(name="fp32", compute_dtype="float32")
BF16 = Precision(name="bf16", compute_dtype="bfloat16")
FP16 = Precision(
    name="fp16", compute_dtype="float16", enabled=True, init_scale=1024.0, growth_interval=2
)
PRECISIONS = {p.name: p for p in (FP32, BF16, FP16)}


class Model(nn.Module):
    """Sizes that two ranks do not divide, tied and frozen weights, an unused one, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.position = nn.Parameter(torch.randn(3, 5) * 0.1)
        self.norm = nn.LayerNorm(5)
        self.up = nn.Linear(5, 7)
        self.down = nn.Linear(7, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(5, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.full((5,), 1.0001))
        self.dtypes: dict[str, torch.dtype] = {}
        self.spoil: float | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed(inputs) * self.table + self.position
        normed = self.norm(hidden)
        up = self.up(normed)
        self.dtypes = {
            "residual": hidden.dtype,
            "norm": normed.dtype,
            "product": up.dtype,
            "weight": self.up.weight.dtype,
        }
        hidden = hidden + self.down(torch.relu(up))
        outputs = self.head(hidden + self.frozen(hidden))
        if self.spoil is not None:
            value = self.spoil
            outputs.register_hook(lambda grad: torch.full_like(grad, value))
        return outputs


class Convnet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.head = nn.Linear(5, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.conv(images))).mean((2, 3)))


def sgd(named: NamedParameters) -> Optimizer:
    return torch.optim.SGD([p for _, p in named], lr=0.1)


def adamw(named: NamedParameters) -> Optimizer:
    groups = [
        {"params": [p for n, p in named if p.dim() > 1 and "unused" not in n], "weight_decay": 0.1},
        {"params": [p for n, p in named if p.dim() <= 1 or "unused" in n], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-2, fused=True)


OPTIMIZERS = {"sgd": sgd, "adamw": adamw}


def windows(steps: int, accumulation: int) -> list[list[Batch]]:
    """Global batches with unequal numbers of masked targets; in the last one rows are missing,
    so that the second rank has a micro-batch without any."""
    generator = torch.Generator().manual_seed(1)
    out = []
    for step in range(steps):
        window = []
        for index in range(accumulation * WORLD):
            inputs = torch.randint(0, 11, (2, 3), generator=generator)
            targets = torch.randint(0, 11, (2, 3), generator=generator)
            targets[torch.rand((2, 3), generator=generator) < 0.3 * (index % 3)] = IGNORE
            missing = max(0, index - accumulation * WORLD + 3) if step == steps - 1 else 0
            window.append(Batch(inputs, targets, max(0, 2 - missing)))
        out.append(window)
    return out


def mine(window: list[Batch], rank: int) -> list[Batch]:
    return window[rank::WORLD]


def plain_run(
    model: nn.Module,
    optimizer: Optimizer,
    batches: list[list[Batch]],
    clip_norm: float | None,
) -> tuple[list[float], list[float]]:
    """Losses and gradient norms of one fp32 process on the whole global batches."""
    objective = CrossEntropy()
    losses, norms = [], []
    for window in batches:
        count = sum(int(objective.count(b.targets[: b.valid])) for b in window)
        total = 0.0
        for batch in window:
            if batch.valid == 0:
                continue
            outputs = model(batch.inputs)[: batch.valid]
            loss = objective.loss_sum(outputs, batch.targets[: batch.valid]) / count
            loss.backward()
            total += loss.item()
        params = [p for p in model.parameters() if p.grad is not None]
        limit = clip_norm if clip_norm is not None else float("inf")
        norms.append(float(nn.utils.clip_grad_norm_(params, limit)))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses, norms


def plain_loss(model: nn.Module, window: list[Batch]) -> float:
    """Mean loss of one process over a global batch, without training on it."""
    return plain_run(copy.deepcopy(model), sgd(list(model.named_parameters())), [window], None)[0][
        0
    ]


class Case:
    """A prepared strategy on this rank, and its plain twin."""

    def __init__(
        self,
        ranks: Ranks,
        stage: int,
        precision: Precision,
        optimizer: str = "sgd",
        clip_norm: float | None = None,
        model: type[nn.Module] = Model,
        **options: Any,
    ) -> None:
        torch.manual_seed(0)
        self.model = model()
        self.twin = copy.deepcopy(self.model)
        self.twin_optimizer = OPTIMIZERS[optimizer](
            [(n, p) for n, p in self.twin.named_parameters() if p.requires_grad]
        )
        self.rank = ranks.rank
        self.zero = Zero(stage, **options)  # type: ignore[arg-type]
        self.zero.prepare(
            self.model, CrossEntropy(), OPTIMIZERS[optimizer], precision, ranks, clip_norm
        )


def parity(ranks: Ranks, stage: int, optimizer: str, accumulation: int, **options: Any) -> Any:
    clip_norm = options.pop("clip_norm", None)
    case = Case(ranks, stage, FP32, optimizer, clip_norm, **options)
    batches = windows(10 if accumulation > 1 else 4, accumulation)
    steps = [case.zero.step(mine(window, ranks.rank)) for window in batches]
    losses, norms = plain_run(case.twin, case.twin_optimizer, batches, clip_norm)
    weights = case.zero.full_weights()
    held = case.zero.held()
    evaluated = case.zero.evaluate(mine(batches[-1], ranks.rank)).means()
    case.zero.close()
    return {
        "losses": [float(s.loss) for s in steps],
        "norms": [float(s.grad_norm) for s in steps],
        "applied": [s.applied for s in steps],
        "plain_losses": losses,
        "plain_norms": norms,
        "weights": weights,
        "plain_weights": case.twin.state_dict(),
        "val_loss": evaluated["loss"],
        "plain_val_loss": plain_loss(case.twin, batches[-1]),
        "grads": held.dtypes()["grads"],
        "params_bytes": held.bytes()["params"],
    }


def dtypes(ranks: Ranks, stage: int, precision: Precision) -> Any:
    case = Case(ranks, stage, precision, "adamw", 1.0)
    start = case.zero.full_weights()
    for window in windows(2, 2):
        case.zero.step(mine(window, ranks.rank))
    weights = case.zero.full_weights()
    result = {
        "held": case.zero.held().dtypes(),
        "reduce": case.zero.reduce_dtype(),
        "seen": {k: str(v).removeprefix("torch.") for k, v in case.model.dtypes.items()},
        "start": start,
        "plain_start": case.twin.state_dict(),
        "weights": weights,
    }
    case.zero.close()
    return result


def spoiled(
    ranks: Ranks, stage: int, precision: Precision, value: float, offload: str = "none"
) -> Any:
    """Eight steps, the fourth with a gradient of `value` on the second rank alone."""
    case = Case(ranks, stage, precision, offload_optimizer=offload)
    result: dict[str, list[Any]] = {"scales": [], "applied": [], "norms": [], "weights": []}
    for index, window in enumerate(windows(8, 1)):
        case.model.spoil = value if index == 3 and ranks.rank == 1 else None
        step = case.zero.step(mine(window, ranks.rank))
        result["scales"].append(step.loss_scale)
        result["applied"].append(step.applied)
        result["norms"].append(float(step.grad_norm))
        result["weights"].append(case.zero.full_weights())
    case.zero.close()
    return result


def growing(ranks: Ranks, stage: int) -> Any:
    """A scale that grows on every step must not show in what the steps do."""
    policy = Precision(
        name="fp16", compute_dtype="float16", enabled=True, init_scale=64.0, growth_interval=1
    )
    case = Case(ranks, stage, policy)
    batches = windows(4, 1)
    norms = [float(case.zero.step(mine(window, ranks.rank)).grad_norm) for window in batches]
    _, plain_norms = plain_run(case.twin, case.twin_optimizer, batches, None)
    weights = case.zero.full_weights()
    case.zero.close()
    return {
        "norms": norms,
        "plain_norms": plain_norms,
        "weights": weights,
        "plain_weights": case.twin.state_dict(),
    }


def convnet(ranks: Ranks, stage: int, precision: Precision) -> Any:
    case = Case(ranks, stage, precision, "adamw", model=Convnet)
    generator = torch.Generator().manual_seed(2 + ranks.rank)
    batch = Batch(torch.randn(4, 3, 6, 6, generator=generator), torch.tensor([0, 1, 2, 3]), 4)
    losses = [float(case.zero.step([batch]).loss) for _ in range(8)]
    local = case.model.norm.running_mean.clone()
    weights = case.zero.full_weights()
    other = local.clone()
    dist.all_reduce(other)
    case.zero.close()
    return {"losses": losses, "weights": weights, "mean": other / WORLD}


def schedule(ranks: Ranks, stage: int) -> Any:
    """Weights before and after a step with the learning rate set to zero by a scheduler."""
    case = Case(ranks, stage, FP32)
    torch.optim.lr_scheduler.LambdaLR(case.zero.optimizer, lambda _: 0.0)
    before = case.zero.full_weights()
    case.zero.step(mine(windows(1, 2)[0], ranks.rank))
    after = case.zero.full_weights()
    case.zero.close()
    return {"before": before, "after": after}


def measure(rank: int, folder: str) -> None:
    """Everything, on one rank; the main rank leaves the results in `folder`."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD
    )
    ranks = Ranks(rank, WORLD, rank, torch.device("cpu"))
    results: dict[Any, Any] = {}
    for stage in (1, 2, 3):
        results["parity", stage, "sgd", 1] = parity(ranks, stage, "sgd", 1)
        results["parity", stage, "sgd", 2] = parity(ranks, stage, "sgd", 2)
        results["parity", stage, "adamw", 3] = parity(ranks, stage, "adamw", 3, clip_norm=0.2)
        results["offload", stage] = parity(ranks, stage, "adamw", 2, offload_optimizer="cpu")
        for precision in (FP32, BF16, FP16):
            results["dtypes", stage, precision.name] = dtypes(ranks, stage, precision)
        results["convnet", stage] = convnet(ranks, stage, BF16)
        results["inf", stage] = spoiled(ranks, stage, FP16, float("inf"))
        results["nan", stage] = spoiled(ranks, stage, FP32, float("nan"))
        results["offload nan", stage] = spoiled(ranks, stage, BF16, float("nan"), "cpu")
        results["growing", stage] = growing(ranks, stage)
        results["schedule", stage] = schedule(ranks, stage)
    if rank == 0:
        torch.save(results, Path(folder) / "results.pt")
    dist.destroy_process_group()
