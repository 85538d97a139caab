"""`python -m train` typed on several hosts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.hosts import Host
from tests.processes import Family, family

PORT = 29517
"""Of node 0's store: a host has all its ports to itself."""


def no_words(node: int) -> tuple[str, ...]:
    return ()


@contextmanager
def typed_on(
    hosts: Sequence[Host],
    cwd: Path,
    *words: str,
    nnodes: int | None = None,
    endpoint: str = f"node0:{PORT}",
    own: Callable[[int], tuple[str, ...]] = no_words,
    names: Mapping[int, Path] | None = None,
    mounts: Mapping[int, Mapping[Path, Path]] | None = None,
) -> Iterator[list[Family]]:
    """The same command on each host, one rank each; the last node begins.

    Args:
        cwd: where it is typed.
        nnodes: of the run; as many as hosts if None.
        own: further words of a node.
        names, mounts: of a node, as `Host.runs` takes them.
    """
    with ExitStack() as stack:
        commands: dict[int, Family] = {}
        for node, host in reversed([*enumerate(hosts)]):
            launcher = host.runs(
                *(sys.executable, "-m", "train"),
                names=(names or {}).get(node),
                mounts=(mounts or {}).get(node),
            )
            place = (
                "cluster=multi_node",
                "cluster.nproc_per_node=1",
                f"cluster.nnodes={nnodes or len(hosts)}",
                f"cluster.node_rank={node}",
                f"cluster.rdzv_endpoint={endpoint}",
            )
            started = family(cwd, *place, *words, *own(node), launcher=launcher)
            commands[node] = stack.enter_context(started)
        yield [commands[node] for node in range(len(hosts))]
