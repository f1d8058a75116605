"""What an exception means: may a later try succeed, and did the effect happen?"""

from __future__ import annotations

import io
import json
import pickle
import socket
import ssl
import subprocess
import urllib.error
from datetime import UTC, datetime
from email.message import Message
from types import SimpleNamespace

import httpx2
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

from jobs import failures, outcomes
from jobs.outcomes import (
    Again,
    Budget,
    EffectSeen,
    Meaning,
    RateLimited,
    Terminal,
    Transient,
    after_failure,
    after_loss,
    classify,
    classify_as,
    http_status,
)
from jobs.params import OutputRejected
from jobs.states import AttemptOutcome, Cause
from jobs.transactions import TransactionOpen

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RETRY, DEAD = Again.RETRY, Again.DEAD
NO, MAYBE = EffectSeen.NO, EffectSeen.MAYBE

# Written out a second time on purpose: a slip in the table must not pass by being copied.
RETRIED = {408, 425, 429, *range(500, 600)}
SURELY_NOT = {
    *(400, 401, 402, 403, 404, 405, 406, 407),
    *(409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 419, 420, 421, 422, 423, 424),
    *(426, 428, 429, 431, 451),
}


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table as it is filled when the app is ready, and none of it left afterwards."""
    of_celery = {SoftTimeLimitExceeded: outcomes._table[SoftTimeLimitExceeded]}  # by jobs.tasks
    monkeypatch.setattr(outcomes, "_table", of_celery)
    failures.register()


def of(error: BaseException, **lists: tuple[type[BaseException], ...]) -> Meaning:
    return classify(error, now=NOW, **lists)


class AnswerError(Exception):
    """Any client's error that carries the answer."""

    def __init__(self, status: int, headers: object = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = type("Response", (), {"status_code": status, "headers": headers})()


@pytest.mark.parametrize("status", range(300, 600))
def test_every_http_status_is_read_as_the_table_says(status: int) -> None:
    meaning = of(AnswerError(status))
    assert meaning == http_status(status)
    assert meaning.again is (RETRY if status in RETRIED else DEAD)
    assert meaning.effect is (NO if status in SURELY_NOT else MAYBE)
    assert (meaning.reason, meaning.outcome) == (f"http_{status}", AttemptOutcome.FAILED)


def test_the_status_is_found_on_httpx_and_urllib_errors() -> None:
    answer = httpx2.Response(503, headers={"Retry-After": "7"}, request=httpx2.Request("GET", "x:"))
    with pytest.raises(httpx2.HTTPStatusError) as raised:
        answer.raise_for_status()
    headers = Message()
    headers["Retry-After"] = "9"
    refused = urllib.error.HTTPError("x:", 429, "slow", headers, io.BytesIO())

    assert (of(raised.value).reason, of(raised.value).retry_after) == ("http_503", 7)
    assert (of(refused).reason, of(refused).retry_after) == ("http_429", 9)
    refused.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "30"}, 30),
        ({"RETRY-AFTER": "30"}, 30),
        ({"retry-after": "Tue, 01 Jan 2030 00:01:00 GMT"}, 60),
        ({"retry-after": "Mon, 31 Dec 2029 00:00:00 GMT"}, 0),
        ({"retry-after": "when it suits"}, None),
        ({"retry-after": 30}, None),
        ({}, None),
        (None, None),
        ("no mapping", None),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_taken_from_its_answer(
    headers: object, seconds: float | None
) -> None:
    assert of(AnswerError(503, headers)).retry_after == seconds


@pytest.mark.parametrize("code", [100, 404, 599])
def test_every_http_status_of_urllib_is_read(code: int) -> None:
    with urllib.error.HTTPError("x:", code, "", Message(), io.BytesIO()) as answered:
        assert of(answered).reason == f"http_{code}"


def test_an_answer_that_urllib_wrapped_keeps_its_wait() -> None:
    headers = Message()
    headers["Retry-After"] = "Tue, 01 Jan 2030 00:01:00 GMT"
    with urllib.error.HTTPError("x:", 503, "slow", headers, io.BytesIO()) as answered:
        meaning = of(urllib.error.URLError(answered))
    assert (meaning.reason, meaning.retry_after) == ("http_503", 60)


def test_an_answer_without_headers_asks_for_no_wait() -> None:
    error = ValueError("it carries an answer")
    error.response = SimpleNamespace(status_code=503)  # type: ignore[attr-defined]
    assert (of(error).reason, of(error).retry_after) == ("http_503", None)


def test_only_a_provider_that_says_slow_down_is_left_alone_by_everybody() -> None:
    limited = [status for status in range(300, 600) if of(AnswerError(status)).limited is not False]
    assert limited == [429]
    assert of(AnswerError(429)).limited is True
    assert of(RateLimited("slow down", retry_after=9)).limited is True
    assert of(Transient("later")).limited is False


@pytest.mark.parametrize("code", [7, 99, 600, "503", None, True])
def test_a_code_that_is_no_http_status_is_not_taken_for_one(code: object) -> None:
    error = ValueError("no answer")
    error.code = code  # type: ignore[attr-defined]
    error.headers = {}  # type: ignore[attr-defined]
    assert of(error).reason == "unclassified"


@pytest.mark.parametrize(
    ("error", "again", "effect", "reason"),
    [
        (ConnectionRefusedError(), RETRY, NO, "connection_refused"),
        (socket.gaierror(), RETRY, NO, "dns_failed"),
        (ssl.SSLCertVerificationError(), DEAD, NO, "tls_certificate_refused"),
        (ssl.SSLError(), RETRY, MAYBE, "connection_lost"),
        (ConnectionResetError(), RETRY, MAYBE, "connection_lost"),
        (BrokenPipeError(), RETRY, MAYBE, "connection_lost"),
        (ConnectionAbortedError(), RETRY, MAYBE, "connection_lost"),
        (TimeoutError(), RETRY, MAYBE, "timeout"),
        (socket.timeout(), RETRY, MAYBE, "timeout"),  # noqa: UP041  one class under two names
        (subprocess.TimeoutExpired("x", 1), RETRY, MAYBE, "timeout"),
        (OperationalError(), RETRY, MAYBE, "database_unavailable"),
        (InterfaceError(), RETRY, MAYBE, "database_unavailable"),
        (IntegrityError(), DEAD, MAYBE, "database_refused"),
        (DatabaseError(), DEAD, MAYBE, "database_refused"),
        (PermissionError(), DEAD, MAYBE, "not_permitted"),
        (SystemExit(3), DEAD, MAYBE, "exited"),
        (TransactionOpen(), DEAD, MAYBE, "transaction_open"),
        (httpx2.ConnectError(""), RETRY, NO, "connection_refused"),
        (httpx2.ConnectTimeout(""), RETRY, NO, "connect_timeout"),
        (httpx2.PoolTimeout(""), RETRY, NO, "connect_timeout"),
        (httpx2.ReadTimeout(""), RETRY, MAYBE, "timeout"),
        (httpx2.WriteTimeout(""), RETRY, MAYBE, "timeout"),
        (httpx2.ReadError(""), RETRY, MAYBE, "connection_lost"),
        (httpx2.WriteError(""), RETRY, MAYBE, "connection_lost"),
        (httpx2.RemoteProtocolError(""), RETRY, MAYBE, "connection_lost"),
        (httpx2.UnsupportedProtocol(""), DEAD, NO, "bad_url"),
        (httpx2.InvalidURL(""), DEAD, NO, "bad_url"),
        (httpx2.TooManyRedirects(""), DEAD, MAYBE, "bad_answer"),
        (httpx2.DecodingError(""), DEAD, MAYBE, "bad_answer"),
        (urllib.error.URLError(ConnectionRefusedError()), RETRY, NO, "connection_refused"),
        (urllib.error.URLError(socket.gaierror()), RETRY, NO, "dns_failed"),
        (urllib.error.URLError(TimeoutError()), RETRY, MAYBE, "timeout"),
        (urllib.error.URLError("no host given"), DEAD, MAYBE, "unclassified"),
    ],
)
def test_the_errors_of_the_libraries_in_use_are_listed(
    error: BaseException, again: Again, effect: EffectSeen, reason: str
) -> None:
    meaning = of(error)
    assert (meaning.again, meaning.effect, meaning.reason) == (again, effect, reason)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("id"),
        TypeError(),
        AttributeError(),
        ZeroDivisionError(),
        AssertionError(),
        json.JSONDecodeError("no", "", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
        FileNotFoundError(),
        MemoryError(),
        RecursionError(),
        OutputRejected("no JSON"),
        Exception("anything"),
        ExceptionGroup("several", [TimeoutError()]),
    ],
)
def test_what_is_not_listed_is_dead_and_may_have_happened(error: BaseException) -> None:
    assert of(error) == Meaning(DEAD, MAYBE, "unclassified")


def test_the_nearest_listed_class_decides_for_a_subclass() -> None:
    class Refused(ConnectionRefusedError):
        pass

    assert of(Refused()).effect is NO


def test_what_is_registered_is_retried_as_said_and_may_have_happened_unless_said_otherwise() -> (
    None
):
    class One(Exception):
        pass

    class Another(Exception):
        pass

    classify_as(One, Another, again=RETRY, reason="provider_naps")
    assert of(One()) == of(Another()) == Meaning(RETRY, MAYBE, "provider_naps")
    classify_as(One, again=DEAD, effect=NO, reason="gone", outcome=AttemptOutcome.TIMED_OUT)
    assert of(One()) == Meaning(DEAD, NO, "gone", AttemptOutcome.TIMED_OUT)


def test_the_soft_time_limit_is_retried_as_timed_out() -> None:
    meaning = of(SoftTimeLimitExceeded())
    assert (meaning.again, meaning.effect) == (RETRY, MAYBE)
    assert (meaning.reason, meaning.outcome) == ("soft_time_limit", AttemptOutcome.TIMED_OUT)


@pytest.mark.parametrize(
    ("error", "again", "effect", "reason"),
    [
        (Transient("later"), RETRY, MAYBE, "transient"),
        (Transient("later", happened=True), RETRY, MAYBE, "transient"),
        (Transient("later", happened=False), RETRY, NO, "transient"),
        (Terminal("never"), DEAD, MAYBE, "terminal"),
        (Terminal("never", happened=True), DEAD, MAYBE, "terminal"),
        (Terminal("never", happened=False), DEAD, NO, "terminal"),
        (RateLimited("slow down", retry_after=9), RETRY, NO, "rate_limited"),
    ],
)
def test_what_an_author_raises_on_purpose_means_what_it_says(
    error: Exception, again: Again, effect: EffectSeen, reason: str
) -> None:
    assert (of(error).again, of(error).effect, of(error).reason) == (again, effect, reason)
    everything = {"autoretry_for": (Exception,), "dont_autoretry_for": (Exception,)}
    assert of(error, **everything) == of(error)


def test_an_own_delay_and_the_providers_word_are_handed_on() -> None:
    assert of(Transient("later", delay=7)).delay == 7
    assert of(RateLimited("slow down", retry_after=9)).retry_after == 9
    assert of(RateLimited("slow down", retry_after=-9)).retry_after == 0


@pytest.mark.parametrize(
    "error",
    [
        Transient("later", happened=False, delay=3),
        RateLimited("slow down", retry_after=9, throttle="bank"),
        Terminal("never", happened=True),
    ],
)
def test_an_authors_error_reaches_another_process_whole(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert (type(copy), copy.args, vars(copy)) == (type(error), error.args, vars(error))


def test_a_kinds_own_lists_answer_the_first_question_and_leave_the_second() -> None:
    retried = of(KeyError("id"), autoretry_for=(LookupError,))
    assert (retried.again, retried.effect) == (RETRY, MAYBE)
    assert retried.reason == "unclassified, listed in autoretry_for"
    dead = of(ConnectionRefusedError(), dont_autoretry_for=(OSError,))
    assert (dead.again, dead.effect) == (DEAD, NO)
    assert dead.reason == "connection_refused, listed in dont_autoretry_for"


def test_the_list_of_what_is_not_retried_wins_over_the_other() -> None:
    both = {"autoretry_for": (OSError,), "dont_autoretry_for": (ConnectionError,)}
    assert of(ConnectionResetError(), **both).again is DEAD
    assert of(FileNotFoundError(), **both).again is RETRY


def test_a_kinds_list_keeps_the_providers_wait() -> None:
    meaning = of(AnswerError(404, {"Retry-After": "5"}), autoretry_for=(AnswerError,))
    assert (meaning.again, meaning.retry_after) == (RETRY, 5)


# --- what a failure or a loss makes of a job -----------------------------------------------------

LATER = Meaning(RETRY, MAYBE, "http_503")


def left(failures: int = 0, losses: int = 0, seconds: float | None = None, **more: bool) -> Budget:
    return Budget(failures, losses, 3, 3, seconds, **more)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_failure_within_the_budget_is_retried_after_its_wait(failures: int) -> None:
    decision = after_failure(LATER, left(failures), 5)
    assert (decision.cause, decision.delay, decision.failure) == (None, 5, True)
    assert decision.loss is False


def test_one_failure_more_than_max_retries_is_exhausted() -> None:
    decision = after_failure(LATER, left(3), 5)
    assert (decision.cause, decision.failure) == (Cause.EXHAUSTED, True)
    assert decision.reason == "http_503; 3 retries are used up"


def test_what_no_try_mends_is_terminal_whatever_budget_is_left() -> None:
    decision = after_failure(Meaning(DEAD, MAYBE, "unclassified"), left(0), 5)
    assert (decision.cause, decision.reason) == (Cause.TERMINAL, "unclassified")
    assert decision.failure is True


@pytest.mark.parametrize(("seconds", "cause"), [(5.0, Cause.DEADLINE), (5.1, None), (None, None)])
def test_a_wait_that_would_pass_the_deadline_ends_the_job_at_once(
    seconds: float | None, cause: Cause | None
) -> None:
    decision = after_failure(LATER, left(0, seconds=seconds), 5)
    assert (decision.cause, decision.failure) == (cause, True)
    assert ("the wait of 5 s would pass the deadline" in decision.reason) is (cause is not None)


@pytest.mark.parametrize("losses", [0, 1, 2])
def test_a_lost_worker_costs_a_loss_and_no_failure(losses: int) -> None:
    decision = after_loss(left(3, losses), 5, timed_out=False)
    assert (decision.cause, decision.delay, decision.reason) == (None, 5, "worker lost")
    assert (decision.failure, decision.loss) == (False, True)


def test_one_loss_more_than_max_losses_is_lost() -> None:
    decision = after_loss(left(0, 3), 5, timed_out=False)
    assert (decision.cause, decision.loss) == (Cause.LOST, True)
    assert decision.reason == "worker lost; 3 losses are used up"


def test_an_attempt_that_outlived_its_time_limit_has_failed() -> None:
    decision = after_loss(left(0, 3), 5, timed_out=True)
    assert (decision.cause, decision.failure, decision.loss) == (None, True, False)
    assert (decision.reason, decision.delay) == ("time limit passed", 5)
    assert after_loss(left(3, 0), 5, timed_out=True).cause is Cause.EXHAUSTED
    assert after_loss(left(0, seconds=4), 5, timed_out=True).cause is Cause.DEADLINE


def test_a_kind_may_count_a_loss_as_a_failure() -> None:
    decision = after_loss(left(0, 9, loss_is_failure=True), 5, timed_out=False)
    assert (decision.cause, decision.failure, decision.loss) == (None, True, True)
    assert after_loss(left(3, 0, loss_is_failure=True), 5, timed_out=False).cause is Cause.EXHAUSTED
