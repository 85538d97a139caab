"""Whether a command goes on with a run: with which, from where, and with what changes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from components.checkpoint import folders
from components.checkpoint.folders import CONFIG
from components.checkpoint.manifest import Damaged, read_manifest
from components.cluster.joined import Joined
from components.errors import ConfigError
from train import identity, lock, places, records, run_names, status
from train.changes import changes, check_allowed, in_words, refuse_changes
from train.command_line import CommandLine, compose_jobs
from train.config_hash import lasting
from train.locate_run import locate
from train.merge import key_of
from train.newest import Found, newest, whole
from train.run_words import AUTO, continued, with_folder

if TYPE_CHECKING:
    from train.run_plan import Plan

NODE_RANK = "cluster.node_rank"


@dataclass(frozen=True)
class Going:
    """A run that is gone on with.

    Attributes:
        folder: its own.
        found: where it goes on.
        before: its config so far, without what says only how it was started.
        state: its status.
        named: whether the user has named the checkpoint.
    """

    folder: Path
    found: Found
    before: dict[str, Any]
    state: dict[str, Any]
    named: bool = False


_going: dict[Path, Going] = {}


def keep(going: Going) -> None:
    """Keep a run for the job that goes on with it, in the same process."""
    _going[going.folder.absolute()] = going


def kept(folder: Path) -> Going | None:
    """The run that was kept for this folder; None for a new one."""
    return _going.get(folder.absolute())


def expand(line: CommandLine, gang: Joined | None) -> tuple[CommandLine, Going | None]:
    """The command line in full: with the overrides and the folder of the run that it goes on with.

    Raises:
        ConfigError: when there is nothing to go on with, or nothing that is whole.
    """
    if line.passthrough:
        return line, None
    resume, run_id = _value(line, "resume"), _value(line, "run_id")
    if line.multirun:
        _refuse_sweep(line, resume, run_id)
        return line, None
    if gang is not None and gang.attempt:
        from train.member import earlier_folder

        folder = earlier_folder(gang)
        if folder is not None:
            return with_folder(line, folder), going_on(folder)
    if resume is None or resume == AUTO:
        return _by_identity(line, resume, run_id)
    follows = _follows(line)
    try:
        located = locate(str(resume))
    except ConfigError:
        if follows:  # node 0 knows
            return line, None
        raise
    _refuse_beside(line, run_id, located.folder)
    line = continued(line, located.folder)
    return line, None if follows else going_on(located.folder, located.checkpoint)


def _refuse_beside(line: CommandLine, run_id: str | None, folder: Path) -> None:
    """Refuse words that would mean another run, or other weights, than the one behind `resume`."""
    if run_id is not None and identity.OUTPUTS / run_id != folder:
        raise ConfigError(
            f"resume={folder} and run_id={run_id} name two runs. Leave one of them out."
        )
    if any(key_of(text) == "init_from" for text in line.overrides):
        raise ConfigError(
            f"init_from beside resume={folder}: a run that goes on has its weights. For a new run "
            "that begins with other weights leave resume out."
        )


def _follows(line: CommandLine) -> bool:
    """Whether this is the command of a further node."""
    given = [text.partition("=")[2] for text in line.overrides if key_of(text) == NODE_RANK]
    rank = given[-1] if given else line.base.cluster.get("node_rank")
    return str(rank or 0) not in ("0", "null")


def _value(line: CommandLine, key: str) -> Any:
    try:
        return line.base.get(key)
    except OmegaConfBaseException:
        compose_jobs(line)  # tells which interpolation leads nowhere
        raise


def _refuse_sweep(line: CommandLine, resume: str | None, run_id: str | None) -> None:
    words = {key_of(text): text.partition("=")[2] for text in line.overrides}
    for key, value in (("resume", resume), ("run_id", run_id)):
        if value is not None or key in words:
            raise ConfigError(
                f"-m with {key}={words.get(key, value)}: a sweep is a folder of new runs. Go on "
                "with one of its runs by resume=<its folder>, without -m."
            )


def _by_identity(
    line: CommandLine, resume: str | None, run_id: str | None
) -> tuple[CommandLine, Going | None]:
    """A run whose folder the command itself gives: begun there, or gone on with."""
    named = any(key_of(text) == "hydra.run.dir" for text in line.overrides)
    short = run_names.short_name([t for t in line.overrides if not t.startswith("hydra.")])
    own = identity.folder_of(run_id, short)
    if own is None and resume is None and places.asks(line.base, places.POD):
        raise ConfigError(
            "cluster=kubernetes without run_id: a pod that is started again has to know which run "
            "it goes on with. Add run_id=<name>, as python -m train.manifest does."
        )
    if own is not None and not named:
        line = with_folder(line, own)
    elif resume is None and not (named and identity.requeued()):
        return line, None
    elif resume == AUTO and not named:
        raise ConfigError(
            "resume=auto goes on in a folder that is the same each time, and this command makes a "
            "new one. Add run_id=<name>, or hydra.run.dir=<folder>."
        )
    (job,) = compose_jobs(line)
    if OmegaConf.select(job.config, NODE_RANK, default=0):  # node 0 decides, and holds the folder
        complete = status.read(job.folder).get("status") == "completed"
        return line, going_on(job.folder, leads=False) if complete else None
    if (job.folder / status.FILE).exists():
        return line, going_on(job.folder)
    if resume == AUTO and not job.config.dry_run:
        print(f"resume=auto: {job.folder} holds no run yet: this one begins there", flush=True)
    return line, None


def going_on(folder: Path, checkpoint: Path | None = None, leads: bool = True) -> Going:
    """A run and the place in it to go on from.

    Args:
        checkpoint: one of the run's; None takes the newest that is whole.
        leads: whether this process is to lead it, so that no other may.

    Raises:
        ConfigError: when the checkpoint that was named, or every one there is, is damaged; when
            the run is still going, or its folder takes nothing.
    """
    if leads:
        _refuse_taken(folder)
    if checkpoint is not None:
        try:
            found = whole(checkpoint)
        except Damaged as error:
            other = newest(folder).checkpoint
            cure = f"Take {other}." if other else "No other is whole."
            raise ConfigError(f"resume={checkpoint} is damaged: {error}. {cure}") from error
    else:
        found = newest(folder)
        if found.checkpoint is None and found.skipped:
            raise ConfigError(
                f"resume={folder}: no checkpoint is whole.\n  "
                + "\n  ".join(found.skipped)
                + f"\nTo begin anew, take another folder, or remove {folder / folders.PLACE}."
            )
    _tell_skipped(found)
    before = _config_at(folder, found)
    return Going(folder, found, before, status.read(folder), named=checkpoint is not None)


def _tell_skipped(found: Found) -> None:
    for damage in found.skipped:
        print(f"skipped a damaged checkpoint: {damage}", file=sys.stderr)


def _refuse_taken(folder: Path) -> None:
    """Ask before looking: a run that is going replaces its checkpoints."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"resume={folder}: the folder cannot be written by this user, and a run goes on in its "
            f"own. Copy it, or start a new run from its weights by init_from={folder}."
        )
    if (folder / lock.FILE).exists():
        lock.take(folder.absolute())
        lock.release(folder.absolute())


def _config_at(folder: Path, found: Found) -> dict[str, Any]:
    """The config with which the checkpoint was written; without one, that of the run."""
    path = (found.checkpoint or folder) / CONFIG
    if not path.exists():
        return {}  # ended before its config was resolved
    loaded = OmegaConf.load(path)
    assert isinstance(loaded, DictConfig)
    return lasting(loaded)


def onto(plan: Plan, going: Going | None) -> Plan:
    """The plan of a run that goes on: checked against what it was, and pointed at its checkpoint.

    Raises:
        ConfigError: for a change that would make another curve of it, or another model; for
            weights to begin with that do not fit.
    """
    from train.start_weights import check_init, check_resumed

    check_allowed(plan.config.resume_allow)
    if going is None or going.found.checkpoint is None:
        check_init(plan.config, plan.model)
    if going is None:
        return _at(plan, Found())
    found = changes(going.before, lasting(plan.config)) if going.before else []
    refuse_changes(found, plan.config.resume_allow, str(going.found.checkpoint or going.folder))
    if going.found.checkpoint is not None:
        check_resumed(going.found.checkpoint, plan.model)
        _refuse_fewer(plan.config.steps, going)
    elif going.state.get("status") == "completed":
        raise ConfigError(
            f"{going.folder} is complete and has no checkpoint from which it could be prolonged "
            f"to steps={plan.config.steps}. Take another folder or run_id; init_from={going.folder}"
            " begins there with its weights."
        )
    attempt = going.state.get("attempts", 1) + 1
    told = f"{attempt}, {going.found.words}"
    words = in_words(found, _cell(going), {"parallel": plan.parallel, "precision": plan.precision})
    return replace(_at(plan, going.found), attempt=told, changes=tuple(words))


def _cell(going: Going) -> dict[str, str]:
    """The strategy and precision that wrote the checkpoint."""
    if going.found.checkpoint is None:
        return {}
    manifest = read_manifest(going.found.checkpoint)
    return {"parallel": manifest.parallel, "precision": manifest.precision}


def _refuse_fewer(steps: int, going: Going) -> None:
    step = going.found.step
    if steps >= step or (going.state.get("status") == "completed" and not going.named):
        return
    earlier = [found.name for found in folders.found(going.folder)]
    raise ConfigError(
        f"steps={steps}, and {going.found.checkpoint} has taken {step}. Take steps={step} or more, "
        f"or go on from an earlier checkpoint: {going.folder / folders.PLACE} has "
        f"{', '.join(earlier)}."
    )


def _at(plan: Plan, found: Found) -> Plan:
    config = plan.config.copy()
    with open_dict(config):
        config.resume = None if found.checkpoint is None else str(found.checkpoint)
    return replace(plan, config=config)


def finished(plan: Plan, going: Going | None) -> bool:
    """Whether nothing is left to do, which is said."""
    if going is None or going.state.get("status") != "completed":
        return False
    steps = max(going.before.get("steps", 0), going.state.get("steps", 0))
    taken = going.state.get("steps", 0)
    if plan.config.steps > (going.found.step if going.named else steps):
        return False
    if taken < steps and plan.config.patience != going.before.get("patience"):
        return False
    more = f"steps=<above {steps}>" if taken >= steps else "patience=null, or a higher one"
    print(
        f"{going.folder} is complete: {taken} of {steps} steps, nothing is left to do. For more, "
        f"add {more}; for another run, take another folder or run_id."
    )
    for change in plan.changes:
        print(f"not done: {change}", file=sys.stderr)
    return True


def next_attempt(plan: Plan, folder: Path) -> tuple[Plan, int]:
    """The plan of a run's next attempt, and the step that it goes on from; 0 from the start."""
    found = newest(folder)
    _tell_skipped(found)
    return replace(_at(plan, found), attempt=None, changes=()), found.step


def make_way(plan: Plan, folder: Path) -> None:
    """Put aside what an earlier attempt left beyond the point where this one goes on.

    Called by the process that leads the run, before its ranks start.
    """
    folders.clean(folder)
    checkpoint = plan.config.resume
    found = Found() if checkpoint is None else whole_again(Path(checkpoint))
    folders.put_aside_after(folder, found.step)
    moved = records.keep_records(folder, found.records)
    if moved:
        many = "s" if moved > 1 else ""
        print(f"{moved} record{many} after step {found.step} put aside: {records.SUPERSEDED}")


def whole_again(checkpoint: Path) -> Found:
    """What a checkpoint says of itself, its files having been read before."""
    manifest = read_manifest(checkpoint)
    return Found(checkpoint, manifest.step, manifest.records)
