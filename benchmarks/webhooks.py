"""What endpoints that are dead or slow cost those that are well, and what the records cost.

A workspace of well endpoints alone, then one with as many well ones beside dead and slow ones; each
is told the same number of events at once, after a first one by which every endpoint becomes known.
Measured is from an event to its first request at each well endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles

from benchmarks.peer import Peer
from benchmarks.stage import CONCURRENCY, Stage
from benchmarks.wire import listening
from tests.servers import Server

WELL, DEAD, SLOW, EVENTS = 80, 10, 10, 20
BARE = 2000
_WORKER = ("--concurrency", str(CONCURRENCY), "--without-gossip", "--without-mingle")


def measure(
    stage: Stage, *, rounds: int, share: float, say: Callable[[str], None]
) -> dict[str, object]:
    """Tell calm and stormy workspaces in turn, beside those who keep nothing; both p95 and ratios.

    All come in every round, and a ratio is the median of the rounds' own.
    """
    peer = stage.peer("hooks")
    peer.worker.thaw()
    slow = stage.start(
        "hooks", "slow", ("celery", "-A", "config", "worker", "--queues", "webhooks_slow", *_WORKER)
    )
    beat = stage.start("hooks", "beat", ("celery", "-A", "config", "beat", "--pidfile="))
    told, peers = {"calm": Told(), "storm": Told()}, Peers()
    try:
        for number in range(rounds):
            peers.celery.append(_celery(stage, share))
            peers.bare.append(_bare(peer, share))
            for kind, found in told.items():
                _one(peer, f"{kind}{number}", int(kind == "storm"), share, found)
            say(_round(number, told, peers))
        statements = _statements(stage, peer)
    finally:
        _stop(beat, slow)
    return {**_line(told, peers), "webhooks_statements": statements}


@dataclass
class Peers:
    """Requests a second of those who keep nothing, round by round."""

    celery: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


def _round(number: int, told: Mapping[str, Told], peers: Peers) -> str:
    calm, storm = (f"{kind} {found.rates[-1]:.0f}" for kind, found in told.items())
    return (
        f"round {number + 1}: deliveries/s {calm}, {storm}; plain Celery {peers.celery[-1]:.0f}, "
        f"bare {peers.bare[-1]:.0f}; p95 so far {_p95(told['calm'].waits):.2f} s"
    )


@dataclass
class Told:
    """All rounds of one kind of workspace."""

    waits: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    lost: int = 0


def _line(told: Mapping[str, Told], peers: Peers) -> dict[str, object]:
    calm, storm = _p95(told["calm"].waits), _p95(told["storm"].waits)
    rates = told["calm"].rates
    return {
        "webhooks_p95_calm_s": round(calm, 3),
        "webhooks_p95_storm_s": round(storm, 3),
        "ratio_webhooks_storm": round(storm / calm, 2),
        "webhooks_per_s": round(median(rates), 1),
        "webhooks_bare_per_s": round(median(peers.bare), 1),
        "ratio_webhooks_bare": _ratio(rates, peers.bare),
        "webhooks_celery_per_s": round(median(peers.celery), 1),
        "ratio_webhooks_celery": _ratio(rates, peers.celery),
        "webhooks_lost": sum(each.lost for each in told.values()),
    }


def _ratio(mine: list[float], theirs: list[float]) -> float:
    return round(median(one / other for one, other in zip(mine, theirs, strict=True)), 2)


def _bare(peer: Peer, share: float) -> float:
    """Requests a second of processes that sign and send, and do nothing else."""
    count = max(CONCURRENCY, round(BARE * share))
    return float(peer.client.ask("bare", count, CONCURRENCY)[0])


def _celery(stage: Stage, share: float) -> float:
    """Requests a second of a plain task that signs and sends, by a worker that is set the same."""
    peer, count = stage.peer("hooks_raw"), max(CONCURRENCY, round(BARE * share))
    peer.worker.thaw()
    try:
        peer.client.ask("fire", count)
        peer.wait(lambda: peer.client.ask("taken")[0] >= count, f"{count} plain tasks sent")
    finally:
        peer.worker.freeze()
    return count / float(peer.client.ask("span")[0])


def _statements(stage: Stage, peer: Peer) -> int:
    """What the worker sends to PostgreSQL for a delivery, as that logs it."""
    slug, well, events = "listened", 10, 10
    peer.client.ask("prepare", slug, well, 0, 0)
    peer.client.ask("tell", slug, 1)
    peer.wait(lambda: peer.client.ask("taken", slug)[0] >= well, "the endpoints are known")
    with listening(stage, "hooks-worker") as said:
        peer.client.ask("tell", slug, events)
        many = well * (events + 1)
        peer.wait(lambda: _are_done(peer, slug, many), f"{slug} is told")
    return sum(round(count / (well * events)) for count in said.values())


def _are_done(peer: Peer, slug: str, count: int) -> bool:
    return bool(peer.client.ask("states", slug)[0].get("succeeded", 0) >= count)


def _one(peer: Peer, slug: str, others: int, share: float, found: Told) -> None:
    """Tell one workspace; deliveries a second to well endpoints. What is missing counts as lost."""
    well, dead, slow = (max(1, round(count * share)) for count in (WELL, DEAD, SLOW))
    dead, slow = dead * others, slow * others
    events = max(2, round(EVENTS * share))
    peer.client.ask("prepare", slug, well, dead, slow)
    peer.client.ask("tell", slug, 1)
    peer.wait(lambda: peer.client.ask("taken", slug)[0] >= well, f"{slug} knows its endpoints")
    peer.client.ask("forget")
    peer.client.ask("tell", slug, events)
    peer.wait(lambda: peer.client.ask("taken", slug)[0] >= well * events, f"{slug} is told")
    found.waits += peer.client.ask("waits", slug)[0]
    found.rates.append(well * events / peer.client.ask("span")[0])
    kept = sum(peer.client.ask("states", slug)[0].values())
    found.lost += (well + dead + slow) * (events + 1) - kept


def _p95(waits: list[float]) -> float:
    return quantiles(waits, n=20)[-1]


def _stop(*processes: Server) -> None:
    for process in processes:
        process.stop()
