"""What endpoints that are dead or slow cost those that are well, and what the records cost.

A workspace of well endpoints alone, then one with as many well ones beside dead and slow ones; each
is told the same number of events at once, after a first one by which every endpoint becomes known.
Measured is from an event to its first request at each well endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import quantiles

from benchmarks.peer import Peer
from benchmarks.stage import CONCURRENCY, Stage
from tests.servers import Server

WELL, DEAD, SLOW, EVENTS = 80, 10, 10, 20
BARE = 2000
_WORKER = ("--concurrency", str(CONCURRENCY), "--without-gossip", "--without-mingle")


def measure(
    stage: Stage, *, rounds: int, share: float, say: Callable[[str], None]
) -> dict[str, object]:
    """Tell calm and stormy workspaces in turn; both p95, their ratio, and deliveries a second."""
    peer = stage.peer("hooks")
    peer.worker.thaw()
    slow = stage.start(
        "hooks", "slow", ("celery", "-A", "config", "worker", "--queues", "webhooks_slow", *_WORKER)
    )
    beat = stage.start("hooks", "beat", ("celery", "-A", "config", "beat", "--pidfile="))
    bare = peer.client.ask("bare", max(CONCURRENCY, round(BARE * share)), CONCURRENCY)[0]
    calm: list[float] = []
    storm: list[float] = []
    rates, lost = list[float](), 0
    try:
        for number in range(rounds):
            for kind, others, waits in (("calm", 0, calm), ("storm", 1, storm)):
                slug = f"{kind}{number}"
                rate, missing = _one(peer, slug, others, share, waits)
                lost += missing
                if not others:
                    rates.append(rate)
                say(f"{slug}: {rate:.0f} deliveries/s, p95 {_p95(waits):.2f} s so far")
    finally:
        _stop(beat, slow)
    return {
        "webhooks_p95_calm_s": round(_p95(calm), 3),
        "webhooks_p95_storm_s": round(_p95(storm), 3),
        "ratio_webhooks_storm": round(_p95(storm) / _p95(calm), 2),
        "webhooks_per_s": round(max(rates), 1),
        "webhooks_bare_per_s": round(bare, 1),
        "ratio_webhooks_bare": round(max(rates) / bare, 2),
        "webhooks_lost": lost,
    }


def _one(peer: Peer, slug: str, others: int, share: float, waits: list[float]) -> tuple[float, int]:
    """Tell one workspace; deliveries a second to well endpoints, and how many rows are missing."""
    well, dead, slow = (max(1, round(count * share)) for count in (WELL, DEAD, SLOW))
    dead, slow = dead * others, slow * others
    events = max(2, round(EVENTS * share))
    peer.client.ask("prepare", slug, well, dead, slow)
    peer.client.ask("tell", slug, 1)
    peer.wait(lambda: peer.client.ask("taken", slug)[0] >= well, f"{slug} knows its endpoints")
    peer.client.ask("forget")
    peer.client.ask("tell", slug, events)
    peer.wait(lambda: peer.client.ask("taken", slug)[0] >= well * events, f"{slug} is told")
    waits += peer.client.ask("waits", slug)[0]
    seconds = peer.client.ask("span")[0]
    kept = sum(peer.client.ask("states", slug)[0].values())
    return well * events / seconds, (well + dead + slow) * (events + 1) - kept


def _p95(waits: list[float]) -> float:
    return quantiles(waits, n=20)[-1]


def _stop(*processes: Server) -> None:
    for process in processes:
        process.stop()
