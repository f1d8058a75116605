"""What the HTTP API costs: a job enqueued, its answer repeated, and a bare view beside them.

All three are answered by the same processes of one web server, in turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks import http, machine
from benchmarks.http import Answered
from benchmarks.peer import Client, Stuck
from benchmarks.stage import Stage
from benchmarks.wire import listening
from tests.servers import Server
from tests.waiting import wait_until

SERVED = (  # as docker/Dockerfile does
    *("--config", "python:config.web", "--preload"),
    *("--workers", "2", "--threads", "4"),
)
CLIENTS = 4
REQUESTS, ALONE = 800, 200
LISTENED = 50
EXPECTED = {
    "bare": b" 201 ",
    "post": b"Idempotent-Replayed: false",
    "replay": b"Idempotent-Replayed: true",
}
ORDERS = (("bare", "post", "replay"), ("post", "replay", "bare"))


@dataclass
class Web:
    """Firedoor's web server with the bare view in it."""

    stage: Stage
    client: Client
    server: Server
    address: Path
    token: str

    @staticmethod
    def started(stage: Stage) -> Web:
        """Serve on a Unix socket; the log of each request's server goes nowhere."""
        client = stage.client("web")
        token = client.ask("token")[0]
        address = stage.folder / "web.sock"
        settings = "DJANGO_SETTINGS_MODULE=benchmarks.peers.web_settings"
        words = ("gunicorn", "config.wsgi", "--env", settings, "--no-control-socket", *SERVED)
        server = stage.start("web", "server", (*words, "--bind", f"unix:{address}"))
        wait_until(address.exists, 60, "the web server listens")
        return Web(stage, client, server, address, token)

    def stop(self) -> None:
        self.server.stop()
        self.client.close()

    def requests(self, count: int) -> dict[str, list[bytes]]:
        """So many of each sort; a replay is a post that was sent before."""
        bare, posts = [], []
        for _ in range(count):
            params = {"order_id": uuid.uuid4().hex, "cents": 4200}
            bare.append(http.post("/bare/", params))
            job = {"kind": "bench.posted", "params": params}
            signed = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid.uuid4().hex}
            posts.append(http.post("/api/v1/workspaces/bench/jobs/", job, signed))
        return {"bare": bare, "post": posts, "replay": posts}

    def ask(self, what: str, requests: list[bytes], clients: int) -> Answered:
        """Have them all answered."""
        return http.ask(self.address, requests, clients=clients, expect=EXPECTED[what])

    def used(self) -> dict[str, float]:
        """Processor seconds so far, by group of processes."""
        return {
            "web": machine.of_family(self.server.pid),
            "postgresql": machine.of_family(self.stage.database.pid),
            "valkey": machine.of_one(self.stage.broker.pid),
        }


@dataclass
class Sort:
    """What was measured of one sort of request: by many callers at once, and by one alone."""

    crowd: list[Answered] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    cost: list[dict[str, float]] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return median(each.per_second for each in self.crowd)

    def ratio(self, base: Sort) -> float:
        """In units of ``base``: the median of the rounds' own ratios."""
        pairs = zip(self.crowd, base.crowd, strict=True)
        return median(mine.per_second / theirs.per_second for mine, theirs in pairs)


def measure(
    stage: Stage, *, rounds: int, share: float, say: Callable[[str], None]
) -> dict[str, object]:
    """All sorts in every round; statements are counted apart, since a log costs time."""
    web = Web.started(stage)
    sorts = {what: Sort() for what in EXPECTED}
    said = _listened(web)
    for number in range(rounds):
        _round(web, sorts, number, share)
        rates = ", ".join(f"{w} {sort.crowd[-1].per_second:.0f}/s" for w, sort in sorts.items())
        say(f"round {number + 1}: {rates}; load {machine.load():.1f}")
    web.stop()
    for what, sort in sorts.items():
        say(f"{what:<7}{_told(sort)}")
        say("       " + "; ".join(f"{count:.2f} {words} …" for words, count in said[what].items()))
    return _line(sorts, {what: sum(words.values()) for what, words in said.items()})


def _round(web: Web, sorts: dict[str, Sort], number: int, share: float) -> None:
    count, few = max(4, round(REQUESTS * share)), max(4, round(ALONE * share))
    web.client.ask("clear")
    crowd, alone = web.requests(count), web.requests(few)
    for what in ORDERS[number % 2]:
        sort = sorts[what]
        web.stage.settle("web")
        before = web.used()
        sort.crowd.append(web.ask(what, crowd[what], CLIENTS))
        after = web.used()
        sort.cost.append({name: 1000 * (after[name] - before[name]) / count for name in after})
        sort.alone += web.ask(what, alone[what], 1).seconds
    made = web.client.ask("left")[0]
    if made != [count + few] * 2:
        raise Stuck(f"{made} rows and jobs were made by {count + few} requests each")


def _listened(web: Web) -> dict[str, dict[str, float]]:
    """What each sort says to PostgreSQL, a request; also the first requests of every process."""
    requests, said = web.requests(LISTENED), {}
    for what in ORDERS[0]:
        with listening(web.stage, "web-server") as spoken:
            web.ask(what, requests[what], CLIENTS)
        said[what] = {words: count / LISTENED for words, count in spoken.most_common()}
    return said


def _told(sort: Sort) -> str:
    cost = {name: median(each[name] for each in sort.cost) for name in sort.cost[0]}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in cost.items())
    p50, p95 = _percentiles(sort.alone)
    crowd = _percentiles([each for answered in sort.crowd for each in answered.seconds])
    return (
        f"{sort.per_second:6.0f}/s by {CLIENTS} callers (p50 {crowd[0]:.1f} ms, p95 "
        f"{crowd[1]:.1f} ms); alone p50 {p50:.2f} ms, p95 {p95:.2f} ms; processor ms: {shown}"
    )


def _line(sorts: dict[str, Sort], said: dict[str, float]) -> dict[str, object]:
    line: dict[str, object] = {"api_callers": CLIENTS}
    for what, sort in sorts.items():
        p50, p95 = _percentiles(sort.alone)
        line |= {
            f"api_{what}_per_s": round(sort.per_second, 1),
            f"api_{what}_p50_ms": round(p50, 2),
            f"api_{what}_p95_ms": round(p95, 2),
            f"api_{what}_statements": round(said[what], 2),
        }
    return line | {
        "ratio_api": round(sorts["post"].ratio(sorts["bare"]), 3),
        "ratio_api_replay": round(sorts["replay"].ratio(sorts["bare"]), 3),
    }


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """The 50th and the 95th, in milliseconds."""
    cuts = quantiles(seconds, n=20, method="inclusive")
    return 1000 * cuts[9], 1000 * cuts[18]
