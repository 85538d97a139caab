"""Sweeps that cannot be, whatever their jobs are."""

from __future__ import annotations

import pytest

from components.errors import ConfigError
from train.command_line import parse
from train.sweep.refusals import refuse_run_dir, refuse_several


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("sweep.slots=1,2", "Give it one value."),
        ("hydra.verbose=true,false", "Give it one value."),
        ("hydra/launcher=basic,basic", "Give it one value."),
        ("sweep=cube,seeds", "write 'sweep=[cube,seeds]'"),
    ],
)
def test_what_a_sweep_has_once_takes_no_several_values(word: str, cure: str) -> None:
    with pytest.raises(ConfigError) as error:
        refuse_several(parse(["-m", "seed=1,2", word]))
    assert str(error.value).startswith(f"{word}: ")
    assert cure in str(error.value)


def test_what_jobs_have_takes_them() -> None:
    refuse_several(parse(["-m", "seed=1,2", "sweep=[cube,seeds]", "sweep.slots=2"]))


def test_the_folder_of_a_single_run_is_none_of_a_sweeps() -> None:
    with pytest.raises(ConfigError, match=r"-m with hydra\.run\.dir=x: .*hydra\.sweep\.dir"):
        refuse_run_dir(parse(["-m", "seed=1,2", "hydra.run.dir=x"]))
    refuse_run_dir(parse(["-m", "seed=1,2", "hydra.sweep.dir=x"]))
