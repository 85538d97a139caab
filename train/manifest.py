"""`python -m train.manifest`: a run as a Kubeflow TrainJob, in YAML."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import PurePosixPath

from components.errors import ConfigError
from train.manifest_job import Claim, TrainJob, Variable
from train.manifest_run import Checked, checked

QUANTITY = re.compile(r"(\d+|\d*\.\d+)([munkMGTPE]|[KMGTPE]i|[eE]\d+)?")
"""As Kubernetes writes amounts: 8, 500m, 64Gi."""

SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
"""RFC 1123, as names of claims, secrets and runtimes are."""

RESERVED = ("PET_", "KUBERNETES_")
"""How variables begin that the cluster sets itself; the trainer rejects a job that sets them."""

EPILOG = """\
Everything else is as behind `python -m train`, and ends up in each pod as it is typed:

  python -m train.manifest --image registry/shardlab:1 --volume runs:/workspace/outputs \\
      --memory 64Gi parallel=fsdp precision=bf16 \\
      cluster.nnodes=2 cluster.nproc_per_node=8 cluster.device=cuda | kubectl apply -f -

The run is composed and its sizes are worked out before anything is printed. In the pods it has
cluster=kubernetes, and run_id=<name> unless you give one: a pod that is started again goes on.

exit codes: 0 printed; 2 refused
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    flags, words = _parser().parse_known_args(argv)
    try:
        run = checked(words, flags.name)
        job = TrainJob(
            name=run.name,
            runtime=_name("--runtime", flags.runtime),
            image=_image(flags.image),
            args=run.args,
            nnodes=run.nnodes,
            nproc_per_node=run.nproc_per_node,
            gpus=run.nproc_per_node if run.device == "cuda" else 0,
            cpu=_quantity("--cpu", flags.cpu),
            memory=_quantity("--memory", flags.memory),
            volumes=[_claim(text) for text in flags.volume],
            variables=[_variable(text) for text in flags.env_from],
        )
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    print(job.as_yaml(), end="")
    print(_told(run, job), file=sys.stderr)
    return 0


def _told(run: Checked, job: TrainJob) -> str:
    """What the run will be, for whoever reads along."""
    size = run.sizes
    told = (
        f"{job.name}: {run.nnodes} x {run.nproc_per_node} ranks, {run.device}; global batch "
        f"{size.global_batch_size} = micro-batch {size.micro_batch_size} x accumulation "
        f"{size.accumulation} x {size.dp_size} data-parallel"
    )
    if not job.volumes:
        told += "\nwithout --volume the run's folder, checkpoints and all, goes with the pods"
        told += " and is not shared between them" if run.nnodes > 1 else ""
    return told


def _image(text: str) -> str:
    if not text or re.search(r"\s", text) or len(text) > 500:
        raise ConfigError(f"--image {text!r}: must be an image's name, as in registry/name:tag.")
    return text


def _quantity(flag: str, text: str | None) -> str | None:
    if text is not None and not (QUANTITY.fullmatch(text) and re.search("[1-9]", text)):
        raise ConfigError(
            f"{flag} {text}: must be an amount above 0 as Kubernetes writes it: 8 or 500m of "
            "--cpu, 64Gi of --memory."
        )
    return text


def _name(flag: str, text: str) -> str:
    if not SUBDOMAIN.fullmatch(text):
        raise ConfigError(
            f"{flag}: {text!r} is no name of Kubernetes, which holds lower-case letters, digits, "
            "`-` and `.`."
        )
    return text


def _claim(text: str) -> Claim:
    claim, _, path = text.partition(":")
    place = PurePosixPath(path)
    if not place.is_absolute() or ":" in path or ".." in place.parts:
        raise ConfigError(
            f"--volume {text}: must be a claim and an absolute path in the pod, as in "
            "--volume runs:/workspace/outputs."
        )
    return Claim(_name("--volume", claim), path)


def _variable(text: str) -> Variable:
    secret, _, name = text.partition(":")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ConfigError(
            f"--env-from {text}: must be a Kubernetes secret and a variable that it holds, as in "
            "--env-from wandb:WANDB_API_KEY."
        )
    if name.startswith(RESERVED):
        raise ConfigError(f"--env-from {text}: {name} is set by the cluster itself. Leave it out.")
    return Variable(_name("--env-from", secret), name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.manifest",
        usage="%(prog)s --image IMAGE [flags] [group=option | key=value]...",
        description="Print the TrainJob (trainer.kubeflow.org/v1alpha1) that runs a command in "
        "pods of a Kubernetes cluster.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--image", required=True, help="has this project and python in it")
    parser.add_argument("--name", help="of the TrainJob; default: run_id, or made of the overrides")
    parser.add_argument("--runtime", default="torch-distributed", help="default: %(default)s")
    parser.add_argument("--cpu", metavar="AMOUNT", help="cores of a pod, as 8 or 500m")
    parser.add_argument("--memory", metavar="AMOUNT", help="of a pod, as 64Gi")
    parser.add_argument(
        "--volume",
        metavar="CLAIM:PATH",
        action="append",
        default=[],
        help="mount a persistent volume claim; may be given again",
    )
    parser.add_argument(
        "--env-from",
        metavar="SECRET:VARIABLE",
        action="append",
        default=[],
        help="set a variable to what a Kubernetes secret holds under its name; may be given again",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
