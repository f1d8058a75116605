"""What an exception means. Pure: it decides, it moves nothing.

Two questions are asked of every exception: *may a later try succeed?* (``again``) and *did the
effect happen?* (``effect``). The second one matters only inside a ``once`` step, where the default
is ``maybe``: only what proves that the provider refused or was never reached closes an intent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from jobs.backoff import parse_retry_after
from jobs.states import AttemptOutcome, Cause


class Again(StrEnum):
    RETRY = "retry"
    DEFER = "defer"
    DEAD = "dead"


class EffectSeen(StrEnum):
    NO = "no"
    MAYBE = "maybe"


class Transient(Exception):
    """A failure that a later try may not meet.

    ``happened=False`` says that the effect of the running step surely did not happen;
    ``delay`` (seconds) replaces the kind's own backoff.
    """

    def __init__(
        self, message: str, *, happened: bool | None = None, delay: float | None = None
    ) -> None:
        super().__init__(message)
        self.happened = happened
        self.delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return (
            _rebuild,
            (type(self), self.args[0], {"happened": self.happened, "delay": self.delay}),
        )


class RateLimited(Exception):
    """The provider said "later": ``retry_after`` seconds. Nothing happened there."""

    def __init__(self, message: str, *, retry_after: float, throttle: str | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.throttle = throttle

    def __reduce__(self) -> tuple[object, ...]:
        words = {"retry_after": self.retry_after, "throttle": self.throttle}
        return (_rebuild, (type(self), self.args[0], words))


class Terminal(Exception):
    """A failure that no later try will mend by itself."""

    def __init__(self, message: str, *, happened: bool | None = None) -> None:
        super().__init__(message)
        self.happened = happened

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args[0], {"happened": self.happened}))


def _rebuild(cls: type[Exception], message: str, words: dict[str, object]) -> Exception:
    return cls(message, **words)


@dataclass(frozen=True)
class Meaning:
    """What an exception means: both answers, and why in a stable word.

    ``limited``: the provider asked to be left alone for a while, by everybody.
    """

    again: Again
    effect: EffectSeen
    reason: str
    outcome: AttemptOutcome = AttemptOutcome.FAILED
    delay: float | None = None
    retry_after: float | None = None
    limited: bool = False


UNLISTED = Meaning(Again.DEAD, EffectSeen.MAYBE, "unclassified")

_table: dict[type[BaseException], Meaning] = {}


def classify_as(
    *types: type[BaseException],
    again: Again,
    effect: EffectSeen = EffectSeen.MAYBE,
    reason: str,
    outcome: AttemptOutcome = AttemptOutcome.FAILED,
) -> None:
    """Register what exceptions of ``types`` and their subclasses mean, for every kind."""
    for each in types:
        _table[each] = Meaning(again, effect, reason, outcome)


# Statuses that say the request was refused before it did anything. 408, 425 and every 5xx may
# come from a gateway in front of a provider that did act, so they stay "maybe".
_NOTHING_HAPPENED = frozenset({*range(400, 408), *range(409, 425), 426, 428, 429, 431, 451})
_RETRIED = frozenset({408, 425, 429})
TOO_MANY_REQUESTS = 429


def http_status(status: int, retry_after: float | None = None) -> Meaning:
    """What an HTTP answer with this ``status`` means."""
    again = Again.RETRY if status in _RETRIED or status >= 500 else Again.DEAD
    effect = EffectSeen.NO if status in _NOTHING_HAPPENED else EffectSeen.MAYBE
    return Meaning(
        again,
        effect,
        f"http_{status}",
        retry_after=retry_after,
        limited=status == TOO_MANY_REQUESTS,
    )


def classify(
    error: BaseException,
    *,
    now: datetime,
    autoretry_for: tuple[type[BaseException], ...] = (),
    dont_autoretry_for: tuple[type[BaseException], ...] = (),
) -> Meaning:
    """Answer both questions for ``error``.

    Order: what the author raised on purpose, the kind's own lists, the HTTP status the error
    carries, the registered table by nearest class, and else "unclassified", which is dead.
    The kind's lists answer only the first question; the second keeps its own answer.
    """
    spoken = _spoken(error)
    if spoken is not None:
        return spoken
    meaning = _listed(error, now)
    if isinstance(error, dont_autoretry_for):
        return replace(
            meaning, again=Again.DEAD, reason=f"{meaning.reason}, listed in dont_autoretry_for"
        )
    if isinstance(error, autoretry_for):
        return replace(
            meaning, again=Again.RETRY, reason=f"{meaning.reason}, listed in autoretry_for"
        )
    return meaning


def _spoken(error: BaseException) -> Meaning | None:
    if isinstance(error, RateLimited):
        return Meaning(
            Again.RETRY,
            EffectSeen.NO,
            "rate_limited",
            retry_after=max(0.0, error.retry_after),
            limited=True,
        )
    if isinstance(error, Transient):
        return Meaning(Again.RETRY, _seen(happened=error.happened), "transient", delay=error.delay)
    if isinstance(error, Terminal):
        return Meaning(Again.DEAD, _seen(happened=error.happened), "terminal")
    return None


def _seen(*, happened: bool | None) -> EffectSeen:
    return EffectSeen.NO if happened is False else EffectSeen.MAYBE


def _listed(error: BaseException, now: datetime) -> Meaning:
    answer = _http_answer(error)
    if answer is not None:
        status, headers = answer
        return http_status(status, parse_retry_after(_header(headers, "retry-after"), now))
    for ancestor in type(error).__mro__:
        if ancestor in _table:
            return _table[ancestor]
    carried = getattr(error, "reason", None)  # urllib and urllib3 wrap what the socket raised
    return _listed(carried, now) if isinstance(carried, OSError) else UNLISTED


def _http_answer(error: BaseException) -> tuple[int, object] | None:
    """Status and headers of the HTTP answer an error carries, whichever client raised it."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int):
        return status, getattr(response, "headers", None)
    code = getattr(error, "code", None)  # urllib.error.HTTPError
    if isinstance(code, int) and 100 <= code <= 599 and hasattr(error, "headers"):
        return code, error.headers
    return None


def _header(headers: object, name: str) -> str | None:
    get = getattr(headers, "get", None)
    value = get(name) if callable(get) else None
    if value is None and isinstance(headers, Mapping):
        value = next((v for k, v in headers.items() if str(k).lower() == name), None)
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Budget:
    """What a job may still spend. Counts are those *before* the failure being decided."""

    failures: int
    losses: int
    max_retries: int
    max_losses: int
    seconds_left: float | None
    loss_is_failure: bool = False


@dataclass(frozen=True)
class Decision:
    """What becomes of a job after an attempt that did not succeed.

    ``cause`` is None when the job goes back to the queue after ``delay`` seconds.
    """

    cause: Cause | None
    reason: str
    delay: float = 0.0
    failure: bool = False
    loss: bool = False


def after_failure(meaning: Meaning, budget: Budget, delay: float) -> Decision:
    """Retry or die. ``delay`` is what the backoff chose, ``Retry-After`` included."""
    if meaning.again is Again.DEAD:
        return Decision(Cause.TERMINAL, meaning.reason, failure=True)
    if budget.failures + 1 > budget.max_retries:
        reason = f"{meaning.reason}; {budget.max_retries} retries are used up"
        return Decision(Cause.EXHAUSTED, reason, failure=True)
    if budget.seconds_left is not None and delay >= budget.seconds_left:
        reason = f"{meaning.reason}; the wait of {delay:.0f} s would pass the deadline"
        return Decision(Cause.DEADLINE, reason, failure=True)
    return Decision(None, meaning.reason, delay=delay, failure=True)


def after_loss(budget: Budget, delay: float, *, timed_out: bool) -> Decision:
    """What becomes of a job whose worker is gone.

    Losing a worker is not the job's failure and has a budget of its own, unless the kind says
    ``loss_is_failure``. An attempt that outlived its hard time limit did fail.
    """
    word = "time limit passed" if timed_out else "worker lost"
    if timed_out or budget.loss_is_failure:
        timed = Meaning(Again.RETRY, EffectSeen.MAYBE, word)
        return replace(after_failure(timed, budget, delay), loss=not timed_out)
    if budget.losses + 1 > budget.max_losses:
        return Decision(Cause.LOST, f"{word}; {budget.max_losses} losses are used up", loss=True)
    return Decision(None, word, delay=delay, loss=True)
