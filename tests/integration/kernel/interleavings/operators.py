"""What people and other systems do: enqueue, cancel, retry, reconcile, resolve, close."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from jobs.errors import KeyConflict
from jobs.recovery.cancel import cancel
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from tests.integration.kernel.interleavings import verbs, weave
from tests.integration.kernel.interleavings.acts import Cast, act
from tests.integration.kernel.interleavings.model import Record
from tests.integration.kernel.interleavings.outside import Intent
from tests.integration.kernel.interleavings.scene import WHY, Scene, running
from workspaces import closing
from workspaces.actors import SYSTEM
from workspaces.errors import WorkspaceClosed

KEYS = tuple(f"k{number}" for number in range(1, 11))
AT_ONCE = 3  # jobs that are not final, so that they meet
STEPS = [  # what can be in doubt comes more often
    *("pay_asked", "pay_asked", "pay", "pay", "hold_asked", "hold_asked", "hold", "hold"),
    *("note", "book", "plan"),
]
PLANS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=3, unique=True)
ACCOUNTS = st.sampled_from(["north", "south"])


def retryable(scene: Scene) -> list[Record]:
    return [record for record in scene.model.records if record.state in ("dead", "cancelled")]


def not_retried(scene: Scene) -> list[Record]:
    return [record for record in retryable(scene) if record.successor is None]


def started(scene: Scene) -> list[tuple[Record, str]]:
    """Steps of final jobs of which an operator may have something to tell."""
    return [
        (record, name)
        for record in not_retried(scene)
        for name, each in record.checkpoints.items()
        if each.state == "started" or each.fault
    ]


def room_for_more(scene: Scene) -> bool:
    return len(scene.roots) < len(KEYS) and len(unfinished(scene)) < AT_ONCE


def unfinished(scene: Scene) -> list[Record]:
    return [record for record in scene.model.records if not record.final]


class Operators(Cast):
    @act(room_for_more, weight=12, always=True)
    def enqueues(self) -> None:
        key = self.free_key()
        kind = self.chosen(st.sampled_from(list(weave.BUDGETS)), "kind")
        steps, account = self.chosen(PLANS, "steps"), self.chosen(ACCOUNTS, "account")
        if self.scene.model.closed:
            with pytest.raises(WorkspaceClosed):
                self.scene.enqueued(kind, key, steps, account)
        else:
            self.scene.enqueued(kind, key, steps, account)

    @act(lambda s: s.roots, weight=1)
    def enqueues_again(self) -> None:
        """The same key with the same params answers the newest of the chain, other params none."""
        kind, key = self.one_of(sorted(self.scene.roots), "key")
        first = self.scene.roots[kind, key]
        job = self.scene.enqueued(kind, key, list(first.steps), first.account)
        assert (job.pk, job.created) == (self.scene.model.newest(first).id, False)
        with pytest.raises(KeyConflict):
            self.scene.enqueued(kind, key, [*first.steps, "more"], first.account)

    @act(unfinished, weight=1)
    def cancels(self) -> None:
        self.cancel(self.one_of(unfinished(self.scene), "job"))

    @act(running, weight=4, always=True)
    def cancels_what_runs(self) -> None:
        self.cancel(self.one_of(running(self.scene), "job"))

    @act(lambda s: s.roots, weight=1)
    def cancels_anything(self) -> None:
        self.cancel(self.any())

    def cancel(self, record: Record) -> None:
        model = self.scene.model
        self.scene.agreed(
            lambda: verbs.cancel(model, record),
            lambda: cancel(record.id, actor=SYSTEM, reason=WHY),
        )

    @act(lambda s: s.roots, weight=1)
    def resolves(self) -> None:
        record = self.any()
        self.scene.agreed(
            lambda: verbs.resolve(record), lambda: resolve(record.id, actor=SYSTEM, reason=WHY)
        )

    @act(started, weight=6, always=True)
    def reconciles(self) -> None:
        """Somebody looked at the provider, and says what is so; not while it may still act."""
        self.told(*self.one_of(started(self.scene), "step"))

    @act(lambda s: s.roots, weight=1)
    def reconciles_anything(self) -> None:
        record = self.any()
        self.told(record, self.one_of(list(record.steps), "step"))

    def told(self, record: Record, name: str) -> None:
        world = self.scene.world
        intent = Intent(record.root.id, record.epoch, name)
        if self.scene.may_still_happen(intent):
            return
        happened = bool(world.effects[intent]) or weave.EFFECTS[name] in ("local", "repeatable")
        outcome = "happened" if happened else "did_not_happen"
        output = world.output(intent) if happened else None
        about: dict[str, Any] = {"step": name, "outcome": outcome, "output": output}
        self.scene.agreed(
            lambda: verbs.reconcile(record, name, outcome, output, self.scene.model.now),
            lambda: reconcile(record.id, actor=SYSTEM, reason=WHY, **about),
        )

    @act(not_retried, weight=8, always=True)
    def retries(self) -> None:
        """One successor, whoever asks how often."""
        mode = self.one_of(["resume", "resume", "restart"], "mode")
        self.scene.retried(self.one_of(not_retried(self.scene), "job"), mode)

    @act(lambda s: s.roots, weight=1)
    def retries_anything(self) -> None:
        mode = self.one_of(["resume", "restart"], "mode")
        self.scene.retried(self.any(), mode)

    @act(lambda s: len(s.roots) > 2 * AT_ONCE and not s.model.closed, weight=1)
    def workspace_closes(self) -> None:
        """What waits is cancelled, what runs is asked to stop, nothing new comes in."""
        closing.close(self.scene.workspace.pk, actor=SYSTEM, reason=WHY)
        self.scene.model.closed = True
        for record in self.scene.model.records:
            if not record.final:
                verbs.cancel(self.scene.model, record)

    def free_key(self) -> str:
        taken = {key for _, key in self.scene.roots}
        return next(key for key in KEYS if key not in taken)

    def any(self) -> Record:
        record: Record = self.one_of(self.scene.model.records, "job")
        return record
