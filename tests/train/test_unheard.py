"""User's code that is looked at before a run is not heard; what it raises is."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from train.unheard import unheard


def _speak() -> None:
    print("a print")
    print("an error's print", file=sys.stderr)
    logging.getLogger("of.a.user").error("a log line")
    warnings.warn("a warning", stacklevel=1)


def test_nothing_is_heard_inside_and_all_of_it_after(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with unheard():
            _speak()
        assert capsys.readouterr() == ("", "")
        assert caplog.records == []
        assert warned == []
        _speak()
    assert capsys.readouterr().out == "a print\n"
    assert [record.getMessage() for record in caplog.records] == ["a log line"]
    assert [str(warning.message) for warning in warned] == ["a warning"]


def test_errors_pass_and_logging_comes_back() -> None:
    with pytest.raises(KeyError, match="RANK"), unheard():
        raise KeyError("RANK")
    assert logging.root.manager.disable == logging.NOTSET
