"""One measurement: fill a queue while its worker stands still, then let the worker drain it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import machine
from benchmarks.peer import Peer
from benchmarks.stage import Stage

WARM_UP = 200  # jobs at the head of the queue that are not counted: caches, connections, plans


@dataclass(frozen=True)
class Contender:
    """What is measured: a task of a peer, and how many of it a round drains."""

    name: str
    peer: str
    task: str
    count: int


@dataclass(frozen=True)
class Drained:
    """One round of one contender.

    ``others`` is the share of the machine's processors that went to processes that are none of
    the benchmark's; ``cost`` is processor milliseconds a job by group of processes.
    """

    per_second: float
    seconds: float
    enqueue_per_second: float
    cost: dict[str, float]
    others: float
    load: float


def drain(stage: Stage, contender: Contender, *, count: int, warm_up: int) -> Drained:
    """Fill and drain once; the first ``warm_up`` jobs are in no rate."""
    peer = stage.peer(contender.peer)
    filling = peer.fill(contender.task, warm_up + count)
    stage.settle(contender.peer)
    before = _used(stage, peer)
    moments = peer.drain(warm_up + count)
    used = {name: value - before[name] for name, value in _used(stage, peer).items()}
    seconds = moments[-1] - moments[warm_up - 1]
    whole = used.pop("machine")
    clock = used.pop("clock")
    return Drained(
        per_second=count / seconds,
        seconds=seconds,
        enqueue_per_second=(warm_up + count) / filling,
        cost={name: 1000 * value / len(moments) for name, value in used.items()},
        others=max(0.0, whole - sum(used.values())) / (machine.CORES * clock),
        load=machine.load(),
    )


def _used(stage: Stage, peer: Peer) -> dict[str, float]:
    parent = machine.of_one(peer.worker.pid)
    return {
        "parent": parent,
        "children": machine.of_family(peer.worker.pid) - parent,
        "postgresql": machine.of_family(stage.database.pid),
        "valkey": machine.of_one(stage.broker.pid),
        "client": machine.of_one(peer.client.process.pid),
        "machine": machine.of_machine(),
        "clock": machine.clock(),
    }
