from __future__ import annotations

from train.compare.report.pareto import front


def test_the_front_is_what_no_other_beats() -> None:
    # memory, speed: 1 is beaten by 3 (as fast in less memory), 2 by 0 (as small and faster).
    points = [(4.0, 90.0), (8.0, 100.0), (4.0, 80.0), (6.0, 100.0), (2.0, 10.0), (9.0, 120.0)]
    assert front(points) == [4, 0, 3, 5]


def test_equal_cells_are_both_on_it() -> None:
    assert front([(4.0, 90.0), (4.0, 90.0)]) == [0, 1]


def test_no_cell_and_one_cell() -> None:
    assert front([]) == []
    assert front([(1.0, 1.0)]) == [0]
