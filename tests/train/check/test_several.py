"""Ranks that several commands start: on two nodes, and by torchrun."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

from tests.runs import outcome, start_train

CHECK = ("-m", "train.check")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", *CHECK)


def _nodes(folder: Path, *ranks: int) -> list[str]:
    """Check two nodes with so many ranks each; what both commands said, and node 0's code."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    words = ("--quick", "cluster=multi_node", f"cluster.rdzv_endpoint={endpoint}")
    started = [
        start_train(
            folder,
            *words,
            *(("--json", "all.json") if node == 0 else ()),
            f"cluster.node_rank={node}",
            f"cluster.nproc_per_node={some}",
            launcher=(sys.executable, *CHECK),
        )
        for node, some in enumerate(ranks)
    ]
    ended = [outcome(process, folder) for process in started]
    return [f"{one.code} {one.stdout}{one.stderr}" for one in ended]


def test_two_nodes_are_checked_as_one_cluster(tmp_path: Path) -> None:
    first, second = _nodes(tmp_path, 1, 1)
    assert first.startswith("0 2 ranks on 2 nodes, cpu, gloo\n")
    assert second.startswith("0 node 1 at 127.0.0.1 waits for node 0\n")
    assert second.endswith("node 1 takes part; node 0 shows what is found\n")
    report = json.loads((tmp_path / "all.json").read_text())
    assert [rank["node"] for rank in report["ranks"]] == [0, 1]
    assert [link["across"] for link in report["links"]] == [True]


def test_nodes_that_would_start_other_numbers_of_ranks_are_told_of_it(tmp_path: Path) -> None:
    first, second = _nodes(tmp_path, 1, 2)
    assert first.startswith("1 ")
    assert f"node 1 ({socket.gethostname()}) would start 2 ranks and node 0 1" in first
    assert second.startswith("1 ")
    assert "node 1: node 0 began no check; its message says why" in second
    assert not (tmp_path / "all.json").exists()


def test_torchruns_ranks_are_checked(tmp_path: Path) -> None:
    words = ("--quick", "--json", "all.json")
    done = outcome(start_train(tmp_path, *words, launcher=TORCHRUN), tmp_path).completed()
    assert done.stdout.startswith("2 ranks on 1 node, cpu, gloo\n")
    report = json.loads((tmp_path / "all.json").read_text())
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
