"""A run as a TrainJob: what it says, what is refused, and that words survive the way to the pod."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from tests.train.trainjob_schema import check
from train.manifest import main
from train.manifest_job import TrainJob, name_of

WORLD = ("cluster.nnodes=2", "cluster.nproc_per_node=4", "cluster.device=cuda")
SMALL = ("data=synthetic", "data.kind=features", "model=mlp", "logger=none", *WORLD)


class Manifest:
    """`python -m train.manifest` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str) -> dict[str, Any]:
        assert main(["--image", "registry/shardlab:1", *argv]) == 0, self._capsys.readouterr().err
        said = self._capsys.readouterr()
        self.err = said.err
        manifest = yaml.safe_load(said.out)
        check(manifest)
        return manifest

    def refused(self, *argv: str) -> str:
        assert main(["--image", "registry/shardlab:1", *argv]) == 2
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("refused: ")
        return said.err


@pytest.fixture
def manifest(capsys: pytest.CaptureFixture[str]) -> Manifest:
    return Manifest(capsys)


def test_all_of_it(manifest: Manifest) -> None:
    flags = ("--cpu", "16", "--memory", "64Gi", "--name", "mine", "--runtime", "own-runtime")
    more = ("--volume", "runs:/w/outputs", "--volume", "runs:/data", "--env-from", "wandb:API_KEY")
    found = manifest(*flags, *more, *SMALL)
    amounts = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    pod = {
        "volumes": [
            {"name": "volume-0", "persistentVolumeClaim": {"claimName": "runs"}},
            {"name": "volume-1", "persistentVolumeClaim": {"claimName": "runs"}},
        ],
        "containers": [
            {
                "name": "node",
                "volumeMounts": [
                    {"name": "volume-0", "mountPath": "/w/outputs"},
                    {"name": "volume-1", "mountPath": "/data"},
                ],
            }
        ],
    }
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch = {"template": {"spec": {"replicatedJobs": [job]}}}
    secret = {"secretKeyRef": {"name": "wandb", "key": "API_KEY"}}
    assert found == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "mine"},
        "spec": {
            "runtimeRef": {"name": "own-runtime"},
            "trainer": {
                "image": "registry/shardlab:1",
                "command": ["python", "-m", "train"],
                "args": [*SMALL, "cluster=kubernetes", "run_id=mine"],
                "numNodes": 2,
                "numProcPerNode": 4,
                "resourcesPerNode": {"requests": amounts, "limits": amounts},
                "env": [{"name": "API_KEY", "valueFrom": secret}],
            },
            "runtimePatches": [{"manager": "shardlab", "trainingRuntimeSpec": patch}],
        },
    }
    # 32 samples over 2 x 4 ranks.
    assert "2 x 4 ranks, cuda; global batch 32 = micro-batch 4 x accumulation 1" in manifest.err
    assert "--volume" not in manifest.err


def test_the_least(manifest: Manifest) -> None:
    """One process has one rank; a pod without GPUs asks for none."""
    spec = manifest("parallel=single", "cluster.device=cpu", "logger=none")["spec"]
    assert spec["runtimeRef"] == {"name": "torch-distributed"}
    assert sorted(spec["trainer"]) == ["args", "command", "image", "numNodes", "numProcPerNode"]
    assert (spec["trainer"]["numNodes"], spec["trainer"]["numProcPerNode"]) == (1, 1)
    assert sorted(spec) == ["runtimeRef", "trainer"]
    assert "without --volume the run's folder" in manifest.err


def test_files_and_hardware_of_the_pods_need_not_be_here(manifest: Manifest) -> None:
    words = ("data=tokens", "data.path=/nowhere/tokens.bin", "parallel=fsdp", "logger=none")
    own = ("cluster.backend=nccl", "cluster.interface=eth7")
    assert manifest(*words, *own, *WORLD)["spec"]["trainer"]["numNodes"] == 2


NASTY = (
    "",
    "$(HOME) $$(HOME) ${now:%Y} $",
    "a'b\"c\\d\ne\tf: {g} #h *i &j %k",
    "yes",
    "1e3",
    "ü\u0085\u2028\x07",
    "x" * 300,
)


def as_kubernetes_expands(text: str) -> str:
    """`$$` is `$`; `$(NAME)` the value of a variable, here LOST.

    Source: the fields `command` and `args` of a container in the reference of Kubernetes' API.
    """
    return re.sub(r"\$\$|\$\(\w+\)", lambda hit: "$" if hit[0] == "$$" else "LOST", text)


def test_words_arrive_as_they_were() -> None:
    job = TrainJob("mine", "torch-distributed", "image", NASTY, 1, 1, 0)
    found = yaml.safe_load(job.as_yaml())
    check(found)
    assert [as_kubernetes_expands(word) for word in found["spec"]["trainer"]["args"]] == [*NASTY]


@pytest.mark.parametrize("text", ["yes", "y", "1e3", "012", "null", "1:30"])
def test_a_text_is_never_taken_for_something_else(text: str) -> None:
    """By readers of YAML 1.1 or 1.2, whatever they hold for a number or a truth."""
    written = TrainJob(text, text, text, [text], 1, 1, 0, text, text).as_yaml()
    assert written.count(f'"{text}"') == 8  # cpu and memory twice each


def test_an_override_with_quotes(manifest: Manifest) -> None:
    word = "hydra.job.name='it''s $(HOME), \"so\"'".replace("''", "\\'")
    args = manifest(word, *SMALL)["spec"]["trainer"]["args"]
    assert as_kubernetes_expands(args[0]) == word


@pytest.mark.parametrize(
    ("words", "run_id", "name"),
    [
        ((), "gpt-2x8", r"gpt-2x8"),
        ((), "GPT_2.x8", r"gpt-2-x8-[0-9a-f]{6}"),
        ((), "7b", r"run-7b-[0-9a-f]{6}"),
        (("parallel=fsdp", "optimizer.lr=1E-3"), None, r"parallel-fsdp-lr-1e-3-[0-9a-f]{6}"),
        # How many pods it has, and Hydra's own keys, are in the digits at the end alone.
        (("cluster.nnodes=2", "hydra.job.name=x", "--config-dir=y"), None, "default-[0-9a-f]{6}"),
        (("model.layers=" + "1" * 99,), None, r"layers-1{26}-[0-9a-f]{6}"),
    ],
)
def test_the_name(words: Sequence[str], run_id: str | None, name: str) -> None:
    found = name_of(words, run_id)
    assert re.fullmatch(name, found)
    assert re.fullmatch(r"[a-z]([-a-z0-9]{,61}[a-z0-9])?", found)


def test_names_differ_where_the_words_do() -> None:
    assert name_of(["a=x_y"], None) != name_of(["a=x-y"], None)


def test_one_s_own_run_id(manifest: Manifest) -> None:
    found = manifest(*SMALL, "run_id=mine")
    assert found["metadata"]["name"] == "mine"
    assert found["spec"]["trainer"]["args"] == [*SMALL, "run_id=mine", "cluster=kubernetes"]


SECRETS = (
    "+logger.mine.api_key=hunter2",
    "+logger.mine={_target_: a.b, api_key: hunter2}",
    "+model.secret.deep=[hunter2]",
    "+hydra.job.env_set.WANDB_API_KEY=hunter2",
    "+logger.mine.password='${oc.env:PASSWORD,hunter2}'",
)


@pytest.mark.parametrize("word", SECRETS)
def test_a_secret_is_refused_and_not_repeated(manifest: Manifest, word: str) -> None:
    told = manifest.refused(*SMALL, word)
    assert "a secret has no place in a manifest" in told
    assert "--env-from SECRET:" in told
    assert "hunter2" not in told


def test_a_secret_s_place_may_be_named(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_TOKEN", "hunter2")
    word = "+hydra.job.env_set.HF_TOKEN='${oc.env:OWN_TOKEN}'"
    args = manifest(*SMALL, word)["spec"]["trainer"]["args"]
    assert as_kubernetes_expands(args[len(SMALL)]) == word
    assert "hunter2" not in str(args)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SMALL, "optimizer.lrr=1"), "optimizer.lrr"),
        ((*SMALL, "model._target_=torch.nn.Linearr"), "Linear"),
        ((*SMALL, "parallel=single"), "parallel=single lives in one process"),
        ((*SMALL, "global_batch_size=12"), "global_batch_size=8 or global_batch_size=16"),
        ((*SMALL, "run_id=5"), "run_id=5"),
        ((*SMALL, "cluster.node_rank=0"), "each pod knows its own"),
        ((*SMALL, "cluster.nnodes=1:4"), "so many from its start to its end"),
        ((*SMALL, "cluster=multi_node"), "each pod knows its own"),
        ((*SMALL, "-m", "seed=0,1"), "a TrainJob is one run"),
        ((*SMALL, "resume=outputs/r"), "Give its own words again with its run_id"),
        ((*SMALL, "--cfg", "job"), "answered by python -m train"),
        ((*SMALL, "--imagine"), "Unrecognized arguments: --imagine"),
        (("cluster.device=cuda",), "cluster.nproc_per_node=auto"),
        (("cluster.nproc_per_node=2",), "cluster.device=auto"),
        (("--name", "Mine", *SMALL), "--name Mine"),
        (("--name", "null", *SMALL), "--name null: is read as None"),
        ((*SMALL, "run_id=${nope}"), "nope, which does not exist"),
        # mine...-node-0-1-xxxxx: 48 + 15 characters are 63.
        (("--name", "m" * 49, *SMALL), "Take 48 or fewer"),
        (("--memory", "64GB", *SMALL), "--memory 64GB"),
        (("--cpu", "0", *SMALL), "--cpu 0"),
        (("--volume", "runs", *SMALL), "--volume runs"),
        (("--volume", "runs:outputs", *SMALL), "absolute path"),
        (("--volume", "R:/o", *SMALL), "'R' is no name of Kubernetes"),
        (("--env-from", "wandb", *SMALL), "--env-from wandb"),
        (("--env-from", "a:PET_NNODES", *SMALL), "PET_NNODES is set by the cluster itself"),
        (("--runtime", "", *SMALL), "--runtime"),
        (("--image", "a b", *SMALL), "--image"),
    ],
)
def test_refused(manifest: Manifest, words: Sequence[str], said: str) -> None:
    assert said in manifest.refused(*words)


def test_the_longest_name(manifest: Manifest) -> None:
    assert manifest("--name", "m" * 48, *SMALL)["metadata"]["name"] == "m" * 48


def test_no_image(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*SMALL])
    assert end.value.code == 2
    assert "--image" in capsys.readouterr().err
