"""What befalls workers: they claim, go on, fail, die, stop, and are heard of or not."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st

from jobs import moves, runner
from jobs.models import Job
from jobs.stops import LeaseLost
from tests.integration.kernel.interleavings import weave
from tests.integration.kernel.interleavings.acts import Cast, act
from tests.integration.kernel.interleavings.course import NOTHING_HAPPENED
from tests.integration.kernel.interleavings.model import Record
from tests.integration.kernel.interleavings.process import IDLE, Order, Process
from tests.integration.kernel.interleavings.scene import Scene


def due(scene: Scene) -> list[Record]:
    return [record for record in scene.model.records if scene.model.claimable(record)]


def not_due(scene: Scene) -> list[Record]:
    """What nobody may claim; what waits comes more often than what runs or has ended."""
    others = [record for record in scene.model.records if not scene.model.claimable(record)]
    return others + 3 * [record for record in others if record.state == "queued"]


def asking(scene: Scene) -> list[Process]:
    """Those that are about to ask what became of an open step."""
    return [
        process
        for process, (execution, _) in scene.at_work.items()
        if process.place.at == "step"
        and process.place.step in weave.CAN_ASK
        and (known := execution.known.get(process.place.step)) is not None
        and known.state == "started"
    ]


def zombies(scene: Scene) -> list[Process]:
    return [process for process, (execution, _) in scene.at_work.items() if not execution.mine]


class Workers(Cast):
    @act(lambda s: s.idle() and due(s), weight=20, always=True)
    def claims(self) -> None:
        """A worker takes what is due, and may run on for a while."""
        process = self.one_of(self.scene.idle(), "worker")
        self.scene.claimed(process, self.one_of(due(self.scene), "job"))
        self.scene.hops(process, self.chosen(st.sampled_from([0, 1, 0, 3]), "hops"))

    @act(lambda s: s.idle() and due(s), weight=1)
    def claim_is_forgotten(self) -> None:
        """A crash of the database loses a claim, which commits asynchronously; its worker lives.

        The next claim has the same attempt number, so only the worker's name tells them apart.
        """
        process = self.one_of(self.scene.idle(), "worker")
        record = self.one_of(due(self.scene), "job")
        columns = ("state", "attempt", "worker", "started_at", "lease_until", "kill_at")
        before = Job.objects.filter(pk=record.id).values(*columns).get()
        worker = record.worker
        self.scene.claimed(process, record)
        Job.objects.filter(pk=record.id).update(**before)
        record.state, record.worker, record.attempt = "queued", worker, record.attempt - 1

    @act(lambda s: s.idle() and not_due(s), weight=3)
    def is_woken_in_vain(self) -> None:
        """Running, final, not yet due, past its deadline, behind a gate: nothing is claimed."""
        process = self.one_of(self.scene.idle(), "worker")
        record = self.one_of(not_due(self.scene), "job")
        assert process.begins(partial(runner.execute, record.kind, record.id)) == IDLE

    @act(lambda s: s.at_work, weight=16, always=True)
    def goes_on(self) -> None:
        """All goes well for a while."""
        self.scene.hops(self.busy(), self.chosen(st.sampled_from([1, 2, 1, 4]), "hops"))

    @act(zombies, weight=16, always=True)
    def zombie_goes_on(self) -> None:
        """It has lost its job, and may not know it yet."""
        process = self.one_of(zombies(self.scene), "worker")
        if process not in self.scene.acted and self.one_of([False, False, True], "is refused"):
            self.scene.hop(process, Order("fail", "refused"))
        self.scene.hops(process, self.chosen(st.sampled_from([1, 3]), "hops"))

    @act(lambda s: s.at_work, weight=12, always=True)
    def fails(self) -> None:
        """The handler's code raises, before a step or inside; and yet it may have happened."""
        scene = self.scene
        process = self.one_of(scene.at_work_inside() or list(scene.at_work), "worker")
        error = self.one_of(["transient", "transient", *sorted(weave.ERRORS)], "error")
        swallow = self.chosen(st.booleans(), "swallowed")
        if process.place.at == "inside" and error not in NOTHING_HAPPENED:
            self.perhaps_it_happened(process)
        elif process in scene.acted:
            error = "transient"  # nobody refuses what he has just done
        scene.hop(process, Order("fail", error, swallow=swallow))

    @act(lambda s: s.at_work, weight=3)
    def ends_oddly(self) -> None:
        """It defers itself, returns what cannot be stored, or meets its worker's shutdown."""
        process = self.busy()
        do = "defer"
        if process.place.at == "inside":
            do = self.one_of(["defer", "unstorable", "exit"], "how")
            self.perhaps_it_happened(process)
        if do == "unstorable":
            self.scene.provider_has_acted(process)
        if do == "exit":
            process.stopping = True
        self.scene.hop(process, Order(do))

    @act(asking, weight=3)
    def asks_in_vain(self) -> None:
        """A provider that is asked about an open step cannot tell, or is down."""
        process = self.one_of(asking(self.scene), "worker")
        answer = self.one_of(["unsure", "broken"], "answer")
        swallow = self.chosen(st.booleans(), "swallowed")
        self.scene.hop(process, Order(answer=answer, swallow=swallow))

    @act(lambda s: s.waiting_outside(), weight=3)
    def provider_acts(self) -> None:
        """What was asked for happens; the answer is still under way."""
        self.scene.provider_has_acted(self.one_of(self.scene.waiting_outside(), "for"))

    @act(lambda s: s.at_work, weight=4)
    def is_killed(self) -> None:
        """At any place; in a local step, after its function and before its checkpoint too."""
        process, how = self.busy(), "die"
        if process.place.at == "inside":
            self.perhaps_it_happened(process)
        elif process.place.at == "step" and weave.EFFECTS[process.place.step] == "local":
            how = self.one_of(["cut", "die"], "when")
        self.scene.dies(process, how)

    @act(lambda s: s.at_work)
    def is_asked_to_stop(self) -> None:
        """Its worker shuts down: it stops at the next boundary."""
        self.busy().stopping = True

    @act(lambda s: s.at_work, weight=4)
    def heart_beats(self) -> None:
        """As the heartbeat's thread does it; the run learns of it at its next boundary."""
        process = self.busy()
        execution, _ = self.scene.at_work[process]
        execution.heartbeat()
        journal = process.journal
        assert journal is not None
        try:
            journal.noted(moves.renew(journal.fence))
        except LeaseLost:
            assert not execution.mine

    def busy(self) -> Process:
        process: Process = self.one_of(list(self.scene.at_work), "worker")
        return process

    def perhaps_it_happened(self, process: Process) -> None:
        if self.chosen(st.booleans(), "it happened"):
            self.scene.provider_has_acted(process)
