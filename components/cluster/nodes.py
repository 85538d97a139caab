"""What the controllers of several nodes tell each other while their ranks run."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

ANSWER_S = 10.0
"""A store that does not answer for so long is taken for gone, and its node with it."""


class Nodes:
    """The nodes of one gang, over the store that node 0 serves.

    A node's last word is None when its ranks ended well, and else an object that
    explains the failure.

    Args:
        store: as `node_store` gives it.
        run_id: the gang's.
        node_rank, nnodes: this node among all.
    """

    def __init__(self, store: dist.Store, run_id: str, node_rank: int, nnodes: int) -> None:
        store.set_timeout(timedelta(seconds=ANSWER_S))
        self._store = dist.PrefixStore(run_id, store)
        self.node_rank = node_rank
        self._others = [node for node in range(nnodes) if node != node_rank]

    def end(self, word: dict[str, Any] | None) -> None:
        """Leave this node's last word. A store that is gone is left alone."""
        try:
            self._store.set(f"ended/{self.node_rank}", json.dumps(word))
            if word is not None:
                self._store.set("failed", "")
        except dist.DistError:
            pass

    def lost(self) -> bool:
        """Whether another node has come to a bad end, or node 0 does not answer."""
        try:
            return bool(self._store.check(["failed"]))
        except dist.DistError:
            return True

    def others(self, timeout_s: float) -> dict[int, dict[str, Any] | None]:
        """The other nodes' last words, by node; those missing that are not in after `timeout_s`."""
        words: dict[int, dict[str, Any] | None] = {}
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                for node in self._others:
                    if node not in words and self._store.check([f"ended/{node}"]):
                        words[node] = json.loads(self._store.get(f"ended/{node}"))
                if len(words) == len(self._others) or time.monotonic() > deadline:
                    return words
                time.sleep(0.05)
        except dist.DistError:
            return words
