"""The machine: at each turn one of those who can act does, and everything must still be true."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.integration.kernel.interleavings.acts import Cast
from tests.integration.kernel.interleavings.operations import Bulkers, Bulks
from tests.integration.kernel.interleavings.operators import Operators
from tests.integration.kernel.interleavings.scene import Scene
from tests.integration.kernel.interleavings.stage import Stage
from tests.integration.kernel.interleavings.upkeep import Upkeep
from tests.integration.kernel.interleavings.workers import Workers


class Everybody(Workers, Upkeep, Operators):
    """Workers, the clock, sweepers and operators."""


class Interleavings(RuleBasedStateMachine):
    """Some jobs at the hands of everybody. Each scene leaves out some of what might be done."""

    scene_of: type[Scene] = Scene
    cast: type[Cast] = Everybody
    first = "enqueues"

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.scene = self.scene_of(stage)
        self.everybody = self.cast(self.scene)
        # The chooser favours what comes first.
        self.acts = sorted(self.everybody.acts(), key=lambda act: -act.weight)

    @initialize(data=st.data())
    def opens(self, data: st.DataObject) -> None:
        self.everybody.data = data
        some = [act.name for act in self.acts if not act.always]
        left_out = data.draw(st.sets(st.sampled_from(some), max_size=len(some) - 4), "left out")
        self.acts = [act for act in self.acts if act.name not in left_out]
        getattr(self.everybody, self.first)()

    @rule(data=st.data())
    def somebody_acts(self, data: st.DataObject) -> None:
        self.everybody.data = data
        if self.scene.is_stale:
            return
        can = [act for act in self.acts if act.possible(self.scene)]
        names = [act.name for act in can for _ in range(act.weight)]
        name = data.draw(st.integers(0, 9999).map(lambda number: names[number % len(names)]), "act")
        getattr(self.everybody, name)()

    @invariant()
    def all_is_true(self) -> None:
        self.scene.look()

    def teardown(self) -> None:
        self.scene.ends()


class EverybodyAndBulks(Workers, Bulkers):
    """And the engines of operations."""


class InterleavingsWithOperations(Interleavings):
    """The same, with bulk deeds among everything else."""

    scene_of = Bulks
    cast = EverybodyAndBulks
    first = "a_job_dies"
