"""The comparison: every contender in every round, in turning order, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from benchmarks.drain import Contender, Drained, drain
from benchmarks.stage import Stage
from benchmarks.wire import Wire, listen

# As many jobs as the slowest machine of today drains in about three seconds.
CONTENDERS = (
    Contender("raw", "raw", "noop", 3200),
    Contender("firedoor", "firedoor", "noop", 2400),
    Contender("procrastinate", "procrastinate", "noop", 2000),
    Contender("raw_unacked", "raw_unacked", "noop", 6000),
    Contender("firedoor_1_step", "firedoor", "one_step", 2000),
    Contender("results", "results", "noop", 900),
    Contender("firedoor_3_steps", "firedoor", "three_steps", 1600),
)


@dataclass
class Comparison:
    """All rounds by contender; ``wires`` is what a job costs in statements."""

    rounds: dict[str, list[Drained]] = field(default_factory=dict)
    wires: dict[str, Wire] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Jobs a second: the median over the rounds."""
        return median(each.per_second for each in self.rounds[name])

    def ratios(self, name: str, base: str) -> list[float]:
        """``name`` in units of ``base``, round by round: what drifts is in both."""
        pairs = zip(self.rounds[name], self.rounds[base], strict=True)
        return [mine.per_second / theirs.per_second for mine, theirs in pairs]

    def enqueued(self, name: str) -> float:
        """Jobs enqueued a second: the median over the rounds."""
        return median(each.enqueue_per_second for each in self.rounds[name])

    def line(self) -> dict[str, object]:
        """The figures, by the names that stay put."""
        rates = {name: round(self.rate(name), 1) for name in self.rounds}
        peers = ("raw", "raw_unacked", "results", "procrastinate")
        ratios = {f"ratio_{peer}": self._ratio("firedoor", peer) for peer in peers}
        steps = ("firedoor_1_step", "firedoor_3_steps")
        enqueue = self.ratios_of_enqueueing()
        return {
            **rates,
            **ratios,
            **{
                f"ratio_raw_{name.removeprefix('firedoor_')}": self._ratio(name, "raw")
                for name in steps
            },
            "enqueue_many_per_s": round(self.enqueued("firedoor"), 1),
            "delay_per_s": round(self.enqueued("raw"), 1),
            "ratio_enqueue": round(median(enqueue), 3),
            "statements_per_job": self.wires["firedoor_1_step"].per_job,
            "statements_per_job_by_steps": {name: w.per_job for name, w in self.wires.items()},
        }

    def ratios_of_enqueueing(self) -> list[float]:
        """``enqueue_many`` in units of a loop of ``delay()``, each round by itself."""
        pairs = zip(self.rounds["firedoor"], self.rounds["raw"], strict=True)
        return [mine.enqueue_per_second / theirs.enqueue_per_second for mine, theirs in pairs]

    def _ratio(self, name: str, base: str) -> float:
        return round(median(self.ratios(name, base)), 3)


def compare(
    stage: Stage, *, rounds: int, share: float, warm_up: int, say: Callable[[str], None]
) -> Comparison:
    """Drain every contender once a round. ``share`` scales the numbers of jobs."""
    done = Comparison({contender.name: [] for contender in CONTENDERS})
    for contender in CONTENDERS:  # every process has started, connected and run its first jobs
        drain(stage, contender, count=20, warm_up=20)
    for contender in CONTENDERS:
        if contender.peer == "firedoor":
            done.wires[contender.name] = listen(stage, contender)
    for number in range(rounds):
        for contender in _turned(number):
            count = max(1, round(contender.count * share))
            one = drain(stage, contender, count=count, warm_up=warm_up)
            done.rounds[contender.name].append(one)
            say(
                f"round {number + 1}: {contender.name:<17}{one.per_second:8.0f}/s"
                f" in {one.seconds:4.1f} s; others {one.others:4.0%}, load {one.load:.1f}"
            )
    return done


def _turned(number: int) -> list[Contender]:
    """Another order each round, so that nobody is always the one after a certain other."""
    turn = number % len(CONTENDERS)
    order = [*CONTENDERS[turn:], *CONTENDERS[:turn]]
    return order[::-1] if number % 2 else order
