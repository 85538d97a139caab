"""A Kubeflow TrainJob as plain containers, and as YAML.

Source: the custom resource `trainer.kubeflow.org/v1alpha1` of Kubeflow trainer 2.2 and 2.3.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from components.errors import ConfigError
from train.run_names import short_name

API_VERSION = "trainer.kubeflow.org/v1alpha1"
REPLICATED = CONTAINER = "node"
"""How the trainer names the job of a runtime that trains, and the container in its pods."""

GPU = "nvidia.com/gpu"
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""RFC 1035, as the resource asks of its name."""

LABEL_LIMIT = 63
NAME_LIMIT = 40
"""Of a name that is made here: room for what is put behind it in the names of pods."""


@dataclass(frozen=True)
class Claim:
    """A persistent volume claim and where it is mounted."""

    claim: str
    path: str


@dataclass(frozen=True)
class Variable:
    """An environment variable with the value that a Kubernetes secret has under the same name."""

    secret: str
    name: str


@dataclass(frozen=True)
class TrainJob:
    """What a manifest says.

    Attributes:
        args: the words behind `python -m train`.
        nproc_per_node: ranks of a pod.
        gpus: of a pod.
        cpu, memory: of a pod, as Kubernetes writes quantities; None leaves it to the runtime.
    """

    name: str
    runtime: str
    image: str
    args: Sequence[str]
    nnodes: int
    nproc_per_node: int
    gpus: int
    cpu: str | None = None
    memory: str | None = None
    volumes: Sequence[Claim] = ()
    variables: Sequence[Variable] = ()

    def plain(self) -> dict[str, Any]:
        """The resource."""
        trainer: dict[str, Any] = {
            "image": _Quoted(self.image),
            "command": [_Quoted(word) for word in ("python", "-m", "train")],
            "args": [_Quoted(_literal(word)) for word in self.args],
            "numNodes": self.nnodes,
            "numProcPerNode": self.nproc_per_node,
        }
        amounts = {"cpu": self.cpu, "memory": self.memory, GPU: self.gpus or None}
        given = {key: _Quoted(str(value)) for key, value in amounts.items() if value is not None}
        if given:
            # Both: trainers before 2.2 take the number of ranks for 1 where one of them is absent.
            trainer["resourcesPerNode"] = {"requests": given, "limits": given}
        if self.variables:
            trainer["env"] = [_from_secret(variable) for variable in self.variables]
        spec: dict[str, Any] = {"runtimeRef": {"name": _Quoted(self.runtime)}, "trainer": trainer}
        if self.volumes:
            spec["runtimePatches"] = [{"manager": "shardlab", **_patch(self.volumes)}]
        return {
            "apiVersion": API_VERSION,
            "kind": "TrainJob",
            "metadata": {"name": _Quoted(self.name)},
            "spec": spec,
        }

    def as_yaml(self) -> str:
        """The resource for `kubectl apply -f -`."""
        return yaml.dump(
            self.plain(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf")
        )


def _patch(volumes: Sequence[Claim]) -> dict[str, Any]:
    """What is added to the runtime's pods. A mount each: the resource has one for each volume."""
    numbered = [(f"volume-{number}", volume) for number, volume in enumerate(volumes)]
    pod = {
        "volumes": [
            {"name": name, "persistentVolumeClaim": {"claimName": _Quoted(volume.claim)}}
            for name, volume in numbered
        ],
        "containers": [
            {
                "name": CONTAINER,
                "volumeMounts": [
                    {"name": name, "mountPath": _Quoted(volume.path)} for name, volume in numbered
                ],
            }
        ],
    }
    job = {"name": REPLICATED, "template": {"spec": {"template": {"spec": pod}}}}
    return {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def _from_secret(variable: Variable) -> dict[str, Any]:
    source = {"name": _Quoted(variable.secret), "key": _Quoted(variable.name)}
    return {"name": _Quoted(variable.name), "valueFrom": {"secretKeyRef": source}}


def _literal(word: str) -> str:
    """A word that Kubernetes hands on as it was: it replaces `$(NAME)`, and takes `$$` for `$`."""
    return word.replace("$", "$$")


def name_of(words: Sequence[str], run_id: str | None) -> str:
    """A name for the job of a command: its `run_id` where that is one, else made of its words."""
    if run_id is not None and LABEL.fullmatch(run_id) and len(run_id) <= NAME_LIMIT:
        return run_id
    telling = [text for text in words if not re.match(r"-|[+~]*(cluster|hydra)\b", text)]
    text = short_name(telling) if run_id is None else run_id
    legible = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not legible[:1].isalpha():
        legible = f"run-{legible}"
    digest = hashlib.sha256("\n".join([*words, run_id or ""]).encode()).hexdigest()[:6]
    return f"{legible[: NAME_LIMIT - 7].rstrip('-')}-{digest}"


def check_name(name: str, nnodes: int) -> None:
    """Refuse what cannot name a TrainJob of so many pods.

    Raises:
        ConfigError: naming the rule.
    """
    if not LABEL.fullmatch(name):
        raise ConfigError(
            f"--name {name}: a TrainJob's name holds lower-case letters, digits and `-`, begins "
            "with a letter and ends in a letter or digit."
        )
    longest = f"{name}-{REPLICATED}-0-{nnodes - 1}-xxxxx"
    if len(longest) > LABEL_LIMIT:
        raise ConfigError(
            f"--name {name} has {len(name)} characters, and its pods are named {longest}, which "
            f"may have {LABEL_LIMIT}. Take {len(name) - len(longest) + LABEL_LIMIT} or fewer."
        )


class _Quoted(str):
    """A text that YAML must not take for anything else, whatever it reads like."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Quoted,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"'),
)
