"""What the user reads when nodes come and go."""

from __future__ import annotations

import pytest

from components.cluster.roll import Comer
from train import elastic_words
from train.sizes import Sizes

ZERO, ONE, TWO = (Comer(n, n, host, 2, "cpu") for n, host in enumerate("abc"))
GONE = {TWO: "is gone without a word"}


def test_the_first_gang() -> None:
    words = elastic_words.beginning([ZERO, ONE], 1, 0, Sizes(32, 8, 1, 4))
    assert words == (
        "2 nodes: node 0 (a), node 1 (b); attempt 1 starts from step 0 with micro-batch 8 and "
        "accumulation 1"
    )


@pytest.mark.parametrize(
    ("happened", "nodes", "sizes", "said"),
    [
        (
            elastic_words.events(GONE, []),
            (4, 3),
            (Sizes(48, 6, 1, 8), Sizes(48, 4, 2, 6)),
            "node 2 (c) is gone without a word: 3 nodes remain, attempt 3 resumes from step 200 "
            "with micro-batch 4 and accumulation 2",
        ),
        (
            elastic_words.events(GONE, []),
            (2, 1),
            (Sizes(8, 4, 1, 2), Sizes(8, 4, 2, 1)),
            "node 2 (c) is gone without a word: 1 node remains, attempt 3 resumes from step 200 "
            "with accumulation 2",
        ),
        (
            elastic_words.events(GONE, [ONE]),
            (2, 2),
            (Sizes(8, 4, 1, 2), Sizes(8, 4, 1, 2)),
            "node 2 (c) is gone without a word, node 1 (b) came: 2 nodes, attempt 3 resumes from "
            "step 200",
        ),
        (
            elastic_words.events({}, []),
            (2, 2),
            (Sizes(8, 4, 1, 2), Sizes(8, 4, 1, 2)),
            "2 nodes, attempt 3 resumes from step 200",
        ),
    ],
)
def test_a_change(
    happened: str, nodes: tuple[int, int], sizes: tuple[Sizes, Sizes], said: str
) -> None:
    assert elastic_words.change(happened, nodes, 3, 200, sizes) == said


def test_too_few() -> None:
    happened = elastic_words.events(GONE, [])
    assert elastic_words.waiting("3:4", 3, [ZERO, ONE], 300.0, happened) == (
        "node 2 (c) is gone without a word: node 0 (a), node 1 (b) are here, and "
        "cluster.nnodes=3:4 needs 3 nodes: waiting for more, up to 300 s"
    )
    assert elastic_words.too_few("3:4", 3, [ZERO, ONE], 300.0, happened) == (
        "node 2 (c) is gone without a word, and then cluster.nnodes=3:4 needs 3 nodes, and within "
        "cluster.start_timeout_s=300 s there was no more than node 0 (a), node 1 (b)"
    )
