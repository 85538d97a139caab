from __future__ import annotations

from train.check.member import guilty
from train.failure import Failure

LOST = Failure(0, "collective", "RuntimeError: Timed out", 10.0)


def test_a_rank_that_said_nothing_explains_what_others_waited_for() -> None:
    assert guilty([LOST], 3).cause == (
        "ranks 1-2: said nothing while others waited: killed, or it hangs"
    )


def test_a_rank_that_says_what_happened_explains_the_others() -> None:
    own = Failure(1, "error", "ValueError: no", 11.0)
    assert guilty([LOST, own], 3) is own


def test_where_all_are_victims_the_first_is_shown() -> None:
    later = Failure(1, "collective", "RuntimeError: Connection closed by peer", 11.0)
    assert guilty([later, LOST], 2) is LOST
