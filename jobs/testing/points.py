"""Acting at an exact point of a running step: dying there, losing the lease there, looking.

======= ========================================================================================
before  nothing of the step is recorded
started its intent is committed (``keyed``, ``once``), its function has not been called
during  its function has returned; that is not recorded
after   its checkpoint is committed
======= ========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal
from unittest import mock

from jobs import run as run_module
from jobs.effects import Call
from jobs.fence import Fence
from jobs.shutdown import Vanished
from jobs.steps import Step
from jobs.testing.running import leave_for_dead

When = Literal["before", "started", "during", "after"]
Perform = Callable[[Call], object]


class Died(Vanished):
    """The process is gone, so nobody handles it.

    *Hole:* ``finally`` blocks and ``except BaseException`` of a handler do run, which a real
    SIGKILL would not let them.
    """


@dataclass(frozen=True)
class Moment:
    """Where the run stands when the act is called. ``output`` is set ``during`` and ``after``."""

    fence: Fence
    step: Step[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: object = None


Act = Callable[[Moment], object]


@contextmanager
def at_step(step: Step[..., Any] | str, when: When, act: Act) -> Iterator[list[Moment]]:
    """Call ``act`` the first time a run comes to this point; yields a list that then holds it.

    ``step`` is a step or its name; the name of a ``many`` step means its first turn.
    What ``act`` raises, the run meets there (``started`` and ``during``: as if the step's own
    function had raised it).
    """
    name = step if isinstance(step, str) else step.name
    seen: list[Moment] = []

    def there(moment: Moment) -> None:
        if not seen:
            seen.append(moment)
            act(moment)

    def is_meant(call: Call) -> bool:
        return not seen and name in (call.step.name, call.step.name.split(":", 1)[0])

    with performing(lambda original: _acting(original, when, is_meant, there)):
        yield seen


@contextmanager
def performing(around: Callable[[Perform], Perform]) -> Iterator[None]:
    """Put something around how every run in this block performs a step."""
    original: Perform = vars(run_module)["perform"]
    with mock.patch.object(run_module, "perform", around(original)):
        yield


class Crash:
    """What died: set once it has."""

    fence: Fence
    step: Step[..., Any]


@contextmanager
def crash_at(step: Step[..., Any] | str, when: When = "during") -> Iterator[Crash]:
    """Let the process die when a run in this block comes to this point.

    The block ends there, its rows are left as a SIGKILL leaves them, and the upkeep pass reaps
    the attempt as lost. Raises AssertionError if no run came there.
    """
    crash, died = Crash(), False
    with at_step(step, when, _die) as seen:
        try:
            yield crash
        except Died:
            died = True
    if not died:
        name = step if isinstance(step, str) else step.name
        raise AssertionError(f"no run died {when} step {name!r}")
    crash.fence, crash.step = seen[0].fence, seen[0].step
    leave_for_dead(crash.fence.job_id)


def _die(moment: Moment) -> None:
    raise Died(f"at step {moment.step.name}")


def _acting(
    original: Perform,
    when: When,
    is_meant: Callable[[Call], bool],
    there: Callable[[Moment], None],
) -> Perform:
    def perform(call: Call) -> object:
        if not is_meant(call):
            return original(call)
        moment = Moment(call.journal.fence, call.step, call.args, call.kwargs)
        if when == "before":
            there(moment)
        function = _acting_inside(call.step.function, when, moment, there)
        output = original(replace(call, step=replace(call.step, function=function)))
        if when == "after":
            there(replace(moment, output=output))
        return output

    return perform


def _acting_inside(
    function: Callable[..., Any], when: When, moment: Moment, there: Callable[[Moment], None]
) -> Callable[..., Any]:
    def acted(*args: Any, **kwargs: Any) -> Any:
        if when == "started":
            there(replace(moment, args=args, kwargs=kwargs))
        output = function(*args, **kwargs)
        if when == "during":
            there(replace(moment, args=args, kwargs=kwargs, output=output))
        return output

    return acted
