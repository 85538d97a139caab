"""The part of the TrainJob resource that manifests use, written down field by field.

Source: `trainer.kubeflow.org_trainjobs.yaml` and `trainjob_types.go` of Kubeflow trainer 2.3, and
Kubernetes' own types for what stands below them. Fields that are not here are taken for mistakes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    """A string."""

    pattern: str = r".*"
    longest: int = 65536

    def check(self, value: Any, path: str) -> None:
        assert isinstance(value, str), f"{path}: {value!r} is no string"
        assert re.fullmatch(self.pattern, value, re.DOTALL), f"{path}: {value!r}"
        assert len(value) <= self.longest, f"{path}: too long"


@dataclass(frozen=True)
class Whole:
    """An int32 above 0."""

    def check(self, value: Any, path: str) -> None:
        assert type(value) is int, f"{path}: {value!r} is no integer"
        assert 0 < value < 2**31, f"{path}: {value!r}"


@dataclass(frozen=True)
class Many:
    """A list; entries with equal `key` are rejected where it is a map by that key."""

    of: Any
    longest: int = 128
    key: str | None = None

    def check(self, value: Any, path: str) -> None:
        assert isinstance(value, list), f"{path}: {value!r} is no list"
        assert len(value) <= self.longest, f"{path}: too many"
        for number, item in enumerate(value):
            self.of.check(item, f"{path}[{number}]")
        if self.key is not None:
            keys = [item[self.key] for item in value]
            assert len(keys) == len({*keys}), f"{path}: two of one {self.key}"


@dataclass(frozen=True)
class Map:
    """An object with these fields, those in `needed` present."""

    fields: dict[str, Any]
    needed: tuple[str, ...] = ()

    def check(self, value: Any, path: str) -> None:
        assert isinstance(value, dict), f"{path}: {value!r} is no object"
        assert {*value} <= {*self.fields}, f"{path}: unknown { ({*value} - {*self.fields}) }"
        assert {*self.needed} <= {*value}, f"{path}: lacks { ({*self.needed} - {*value}) }"
        for name, item in value.items():
            self.fields[name].check(item, f"{path}.{name}")


LABEL = Text(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63)
NAME = Text(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", 253)
AMOUNT = Text(r"[0-9.]+([munkMGTPE]|[KMGTPE]i|[eE]\d+)?")
AMOUNTS = Map({"cpu": AMOUNT, "memory": AMOUNT, "nvidia.com/gpu": Text(r"[1-9]\d*")})
VARIABLE = Text(r"(?!PET_)[A-Za-z_]\w*")
KEY_OF_SECRET = Map({"name": NAME, "key": Text(r"[-._a-zA-Z0-9]+")}, ("name", "key"))
ENV = Map(
    {
        "name": VARIABLE,
        "valueFrom": Map({"secretKeyRef": KEY_OF_SECRET}, ("secretKeyRef",)),
    },
    ("name",),
)
TRAINER = Map(
    {
        "image": Text(r"\S+", 500),
        "command": Many(Text()),
        "args": Many(Text()),
        "env": Many(ENV, key="name"),
        "numNodes": Whole(),
        "numProcPerNode": Whole(),
        "resourcesPerNode": Map({"requests": AMOUNTS, "limits": AMOUNTS}),
    }
)
CLAIM = Map({"claimName": NAME}, ("claimName",))
VOLUME = Map({"name": LABEL, "persistentVolumeClaim": CLAIM}, ("name",))
MOUNT = Map({"name": LABEL, "mountPath": Text(r"/[^:]*")}, ("name", "mountPath"))
CONTAINER = Map({"name": Text("node"), "volumeMounts": Many(MOUNT, key="name")}, ("name",))
POD = Map(
    {
        "volumes": Many(VOLUME, key="name"),
        "containers": Many(CONTAINER, 64, "name"),
    }
)


def _within(*names: str, of: Any) -> Any:
    for name in reversed(names):
        of = Map({name: of}, (name,))
    return of


JOB = Map(
    {"name": Text("node"), "template": _within("spec", "template", "spec", of=POD)},
    ("name",),
)
PATCH = Map(
    {
        "manager": Text(r".+", 253),
        "trainingRuntimeSpec": _within(
            "template", "spec", "replicatedJobs", of=Many(JOB, 100, "name")
        ),
    },
    ("manager",),
)
SPEC = Map(
    {
        "runtimeRef": Map({"name": NAME}, ("name",)),
        "trainer": TRAINER,
        "runtimePatches": Many(PATCH, 16, "manager"),
    },
    ("runtimeRef",),
)
TRAINJOB = Map(
    {
        "apiVersion": Text(r"trainer\.kubeflow\.org/v1alpha1"),
        "kind": Text("TrainJob"),
        "metadata": Map({"name": LABEL}, ("name",)),
        "spec": SPEC,
    },
    ("apiVersion", "kind", "metadata", "spec"),
)


def check(manifest: Any) -> None:
    """Hold a manifest, read from YAML, against the resource.

    Raises:
        AssertionError: naming the first field that the cluster would reject.
    """
    TRAINJOB.check(manifest, "TrainJob")
