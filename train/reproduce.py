"""`python -m train.reproduce`: run a recorded run again, with its own code, and compare."""

from __future__ import annotations

import argparse
import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.cluster.signals import Interrupted, raise_interrupts
from components.errors import ConfigError
from train import status
from train.files import read_json, write_json
from train.provenance import provenance
from train.reproduce_code import checked_out
from train.reproduce_environment import Difference, after_start, before_start, in_words
from train.reproduce_verdict import Verdict, judge
from train.reproduce_words import NOT_IN_GIT, Rerun, rerun

REPORT = "reproduction.json"
SHOWN = 12
"""Differences of the surroundings on the console; the report has all."""

LAST_WORDS_S = 150.0
"""How long a run that was told to end may take to save; its own grace is shorter."""

EPILOG = """\
The recorded commit is checked out into a temporary git worktree, what it differed by is applied,
and the run's own words start it again there, on as many ranks and threads, in a new folder. Your
checkout and index stay as they are, and the worktree is gone afterwards.

On the CPU, and on a GPU with deterministic=true, the same versions on the same processor give the
same bits; otherwise a relative difference passes, of 0.001 in fp32 and 0.02 in half types.

examples:
  python -m train.reproduce outputs/<date>/<run>
  python -m train.reproduce outputs/<date>/<time>_sweep/3_<job> --out again

exit codes: 0 equal; 1 not equal; 2 refused; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    raise_interrupts()
    try:
        return reproduce(words.run, words.out)
    except ConfigError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        print(f"{stop}; the worktree is gone, nothing was compared", file=sys.stderr)
        return stop.exit_code


def reproduce(folder: Path, out: Path | None = None) -> int:
    """Reproduce the run in `folder` and say what came of it; the exit code.

    Args:
        out: the new folder; None for one beside the run's.

    Raises:
        ConfigError: when it cannot be begun.
        Interrupted: by a signal, once all is put away.
    """
    recorded, config = _recorded(folder)
    out = out or free_folder(folder)
    status.check_free(out)
    with ExitStack() as stack:
        trees = [stack.enter_context(tree) for tree in _code(folder, recorded)]
        again = rerun(folder, recorded, config, trees, out)
        lacks = [*_lacks(folder, recorded, again), *(word for t in trees for word in t.lacks)]
        around = before_start(recorded, provenance())
        _tell_start(folder, recorded, lacks, around)
        code = _run(again)
    if not (out / "provenance.json").exists():
        print(f"\nnot reproduced: the run did not begin (exit code {code})", file=sys.stderr)
        return 2 if code == 2 else 1
    inside = after_start(recorded, read_json(out / "provenance.json"))
    verdict = judge(folder, out, again.pinned, [*around, *inside])
    changed = _changed(recorded)
    if changed and verdict.loose is None:
        verdict = replace(verdict, loose=changed[0])
    _report(folder, out, verdict, lacks, [*around, *inside])
    print("\n".join(["", *_shown("inside", in_words(inside)), *verdict.lines()]))
    print(f"{'equal' if verdict.equal else 'NOT EQUAL'}: {out}, compared in {out / REPORT}")
    return 0 if verdict.equal else 1


def free_folder(folder: Path) -> Path:
    """A folder for the reproduction: beside the run, and outside the sweep of a job."""
    run = folder.absolute()
    place, name = run.parent, run.name
    if (place / "multirun.yaml").exists():
        place, name = place.parent, f"{place.name}_{name}"
    names = (f"{name}_reproduced{f'-{n}' if n > 1 else ''}" for n in range(1, sys.maxsize))
    return next(place / one for one in names if not (place / one).exists())


def _recorded(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The provenance and the resolved config.

    Raises:
        ConfigError: when there is no run, or not enough is known of it.
    """
    if not (folder / status.FILE).exists():
        raise ConfigError(f"{folder} is no run's folder. Give one: outputs/<date>/<run>.")
    recorded = read_json(folder / "provenance.json")
    if "cell" not in recorded:
        raise ConfigError(
            f"{folder} has no provenance.json of a run that was started: what was refused before "
            "leaves nothing to reproduce. Give its command again."
        )
    if recorded.get("git") is None:
        raise ConfigError(
            f"{folder}: the run's code {NOT_IN_GIT} It was shardlab "
            f"{recorded['packages'].get('shardlab', 'of no version')}. With the present code, give "
            f"its command again: {recorded['command']}"
        )
    from omegaconf import OmegaConf

    config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    assert isinstance(config, dict)
    nodes = config.get("cluster", {}).get("nnodes", 1)
    if nodes > 1:
        raise ConfigError(
            f"{folder} ran on {nodes} nodes, and this command starts processes on one. Check "
            f"commit {recorded['git']['commit']} out on each and give the run's command there."
        )
    return recorded, {str(key): value for key, value in config.items()}


def _code(folder: Path, recorded: dict[str, Any]) -> Iterator[Any]:
    """The worktrees to make: of this project, and of the repository around the working folder."""
    yield checked_out(folder, recorded["git"], Path(__file__).parent)
    if recorded.get("git_cwd") is not None:
        yield checked_out(folder, recorded["git_cwd"], Path(recorded["cwd"]))


def _lacks(folder: Path, recorded: dict[str, Any], again: Rerun) -> list[str]:
    """What cannot be as it was, beside the code."""
    lacks = []
    if str(again.cwd) != recorded["cwd"]:
        lacks.append(f"{recorded['cwd']} is gone: relative paths are looked up in {again.cwd}")
    attempts = recorded.get("attempts", [])
    codes = {(one["git"] or {}).get("commit") for one in attempts}
    if len(codes) > 1:
        lacks.append(f"its {len(attempts)} attempts ran different commits: this is the last one's")
    return [*lacks, *_changed(recorded)]


def _changed(recorded: dict[str, Any]) -> list[str]:
    """What the run did otherwise from some attempt on."""
    return [
        f"attempt {one['attempt']} changed {', '.join(one['changes'])}: here it is so from step 0"
        for one in recorded.get("attempts", [])
        if one["changes"]
    ]


def _tell_start(
    folder: Path, recorded: dict[str, Any], lacks: list[str], around: list[Difference]
) -> None:
    noted = recorded["git"]
    patch = f" with {noted['patch']}" if noted["patch"] else ""
    told = [
        f"{'run':<12}{folder}",
        f"{'code':<12}commit {noted['commit'][:12]}{patch}",
        *(f"{'not exact':<12}{word}" for word in lacks),
        *(_shown("around it", in_words(around)) or [f"{'around it':<12}as it was"]),
    ]
    print("\n".join([*told, ""]), flush=True)


def _shown(name: str, words: list[str]) -> list[str]:
    more = [f"and {len(words) - SHOWN} more"] if len(words) > SHOWN else []
    lines = [*words[:SHOWN], *more]
    return [f"{name if n == 0 else '':<12}{line}" for n, line in enumerate(lines)]


def _run(again: Rerun) -> int:
    """Run it to its end; a signal is passed on, and its end awaited."""
    process = subprocess.Popen(
        again.argv,
        cwd=again.cwd,
        env=again.environ,
        stdin=subprocess.DEVNULL,
        # Ctrl-C at the terminal reaches this process alone, and so the run once.
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    try:
        return process.wait()
    except Interrupted as stop:
        process.send_signal(stop.signum)
        try:
            process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


def _die_with_parent() -> None:
    # PR_SET_PDEATHSIG: the run is not to go on when its caller was killed.
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))


def _report(
    folder: Path, out: Path, verdict: Verdict, lacks: list[str], differing: list[Difference]
) -> None:
    around = [{"what": what, "then": then, "now": now} for what, then, now in differing]
    told = {"of": str(folder.absolute()), "not_exact": lacks, "surroundings": around}
    write_json(out / REPORT, {**told, **verdict.as_json()})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.reproduce",
        description="Run a recorded run again, with the code it was made with, and compare.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="the new run's folder; default: beside the run, <run>_reproduced",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
