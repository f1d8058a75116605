"""What upkeep and the clock do: leases end, time passes, sweepers pass, quick or slow."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from jobs import sweep
from tests.integration.kernel.interleavings.acts import Cast, act
from tests.integration.kernel.interleavings.model import Record
from tests.integration.kernel.interleavings.scene import Scene, running


def taken_from(scene: Scene) -> list[Record]:
    """Jobs at work, those that wait for an answer twice, while somebody has nothing to do."""
    inside = [scene.at_work[process][0] for process in scene.at_work_inside()]
    doubtful = [each.record for each in inside if each.mine]
    return [*running(scene), *doubtful] if scene.idle() else []


def moments(scene: Scene) -> list[float]:
    return sorted({each for each in scene.model.moments() if each > scene.model.now})[:3]


def deadlines(scene: Scene) -> list[float]:
    return [record.deadline for record in scene.model.records if not record.final]


class Upkeep(Cast):
    @act(running, weight=6)
    def lease_runs_out(self) -> None:
        """The heart of one worker was not heard for long enough; a sweeper may notice at once."""
        record = self.one_of(running(self.scene), "job")
        self.scene.lease_ends(record)
        if self.one_of([True, True, False], "and is reaped"):
            self.scene.look()
            self.sweep(reap_now=True)

    @act(taken_from, weight=8, always=True)
    def another_takes_over(self) -> None:
        """A worker is not heard of, and another runs the job, or its retry, while it goes on."""
        record = self.one_of(taken_from(self.scene), "job")
        self.scene.lease_ends(record)
        self.sweep(reap_now=True)
        self.scene.look()
        if record.state == "dead":
            record = self.scene.retried(record, "resume") or record
            self.scene.look()
        if record.state == "queued":
            self.until(record.run_at)
            self.scene.look()
        idle = self.scene.idle()
        if idle and self.scene.model.claimable(record):
            self.scene.claimed(self.one_of(idle, "worker"), record)

    @act(weight=1)
    def minutes_pass(self) -> None:
        self.scene.passes(60 * self.chosen(st.integers(1, 16), "minutes"))

    @act(moments, weight=8, always=True)
    def time_comes(self) -> None:
        """The next moment that somebody waits for, or one after that."""
        self.until(self.one_of(moments(self.scene), "moment"))

    @act(deadlines, weight=1)
    def deadline_passes(self) -> None:
        self.until(self.one_of(deadlines(self.scene), "moment"))

    def until(self, moment: float) -> None:
        """Whole minutes, so that what is a minute later does not come as well."""
        self.scene.passes(60 * max(1, math.ceil((moment - self.scene.model.now) / 60)))

    @act(weight=3, always=True)
    def sweeper_passes(self) -> None:
        self.sweep(reap_now=self.chosen(st.booleans(), "without grace"))

    def sweep(self, *, reap_now: bool) -> None:
        """A whole pass. What it wakes may run."""
        model, wakes = self.scene.model, self.scene.stage.wakes
        wakes.clear()
        model.swept(reap_now=reap_now)
        assert sweep.sweep(reap_now=reap_now).faults == 0
        for record in model.records:
            if record.id in wakes:
                assert record.state == "queued"
                assert not model.gate_is_closed(record.account), "woken behind a closed gate"

    @act(weight=1)
    def slow_sweeper_looks(self) -> None:
        """Another sweeper has made its list."""
        late = [(sweep._reap, pk) for pk in sweep._expired()]
        self.scene.listed = late + [(sweep._bury_late, pk) for pk in sweep._past_deadline()]

    @act(running, weight=1)
    def slow_sweeper_looks_at_a_late_one(self) -> None:
        """It finds a lease that ran out; the worker may be heard of before it acts."""
        record = self.one_of(running(self.scene), "job")
        self.scene.lease_ends(record)
        self.slow_sweeper_looks()

    @act(lambda s: s.listed, weight=5, always=True)
    def slow_sweeper_acts(self) -> None:
        """It does what its list says, each row looked at once more."""
        work, pk = self.one_of(self.scene.listed, "row")
        self.scene.listed.remove((work, pk))
        done = sweep.Pass()
        sweep._each([pk], work, done)
        assert done.faults == 0
        for record in self.scene.model.records:
            if record.id == pk:
                meant = self.scene.model.reap if work is sweep._reap else self.scene.model.bury
                meant(record)
