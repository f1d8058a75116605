"""Kinds that wait where a test wants to strike, and whose leases and limits are short.

A step that holds goes on once the file ``<ledger>.hold`` is gone, so a test decides when.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs.kinds import DidNotHappen, Happened, Intent, Run, Transient, job_kind, step
from tests.drills.ledger import effects, happened

LEASE = timedelta(seconds=3)
LONGEST_HOLD = 100.0


def hold(ledger: str) -> None:
    """Wait until the file beside the ledger is gone, or names another process than this one."""
    until = time.monotonic() + LONGEST_HOLD
    while _is_held(ledger) and time.monotonic() < until:
        time.sleep(0.02)


def _is_held(ledger: str) -> bool:
    try:
        return Path(f"{ledger}.hold").read_text() in ("", str(os.getpid()))
    except FileNotFoundError:
        return False


@step("before")
def before(ledger: str) -> None:
    happened(ledger, "before")


@step("work")
def work(ledger: str) -> dict[str, Any]:
    happened(ledger, "work")
    hold(ledger)
    return {"pid": os.getpid()}


@step("after")
def after(ledger: str) -> None:
    happened(ledger, "after")


@job_kind("drills.held", steps=(before, work, after), lease=LEASE)
def held(run: Run, *, ledger: str) -> dict[str, Any]:
    run(before, ledger)
    done = run(work, ledger)
    run(after, ledger)
    return done


@job_kind("drills.patient", steps=(before, work))
def patient(run: Run, *, ledger: str) -> dict[str, Any]:
    """Its lease is the usual one: it outlasts a restart of the database."""
    run(before, ledger)
    return run(work, ledger)


@step.once("pay")
def pay(ledger: str) -> dict[str, Any]:
    happened(ledger, "pay")
    hold(ledger)
    return {"pid": os.getpid()}


@job_kind("drills.held_once", steps=(before, pay, after), lease=LEASE)
def held_once(run: Run, *, ledger: str) -> dict[str, Any]:
    run(before, ledger)
    paid = run(pay, ledger)
    run(after, ledger)
    return paid


def paid_already(intent: Intent, ledger: str, *, early: bool) -> Happened | DidNotHappen:
    """Ask the ledger, as one asks a provider that keeps records."""
    happened(ledger, "asked")
    return Happened({"pid": 0}) if effects(ledger)["pay"] else DidNotHappen()


@step.once("pay_or_ask", reconcile=paid_already)
def pay_or_ask(ledger: str, *, early: bool) -> dict[str, Any]:
    """Hold before the effect if ``early``, else after it."""
    if early:
        hold(ledger)
    happened(ledger, "pay")
    if not early:
        hold(ledger)
    return {"pid": os.getpid()}


@job_kind("drills.held_asking", steps=(before, pay_or_ask, after), lease=LEASE)
def held_asking(run: Run, *, ledger: str, early: bool = False) -> dict[str, Any]:
    run(before, ledger)
    paid = run(pay_or_ask, ledger, early=early)
    run(after, ledger)
    return paid


@step("fail_once")
def fail_once(ledger: str) -> None:
    happened(ledger, "work")
    hold(ledger)
    if effects(ledger)["work"] == 1:
        raise Transient("once")


@job_kind("drills.held_failing", steps=(fail_once,), lease=LEASE, retry_jitter=False)
def held_failing(run: Run, *, ledger: str) -> None:
    run(fail_once, ledger)


@job_kind(
    "drills.slow", steps=(work,), soft_time_limit=1, time_limit=60, max_retries=1, lease=LEASE
)
def slow(run: Run, *, ledger: str) -> None:
    run(work, ledger)


def hold_stubbornly(ledger: str) -> None:
    """Hold, and swallow the soft time limit as careless code does."""
    while _is_held(ledger):
        with suppress(Exception):
            hold(ledger)


@step("stubborn")
def stubborn(ledger: str) -> None:
    happened(ledger, "stubborn")
    hold_stubbornly(ledger)


@job_kind(
    "drills.stubborn",
    steps=(stubborn,),
    soft_time_limit=1,
    time_limit=2,
    max_retries=1,
    lease=LEASE,
)
def stubborn_job(run: Run, *, ledger: str) -> None:
    run(stubborn, ledger)


@step.once("pay_stubbornly")
def pay_stubbornly(ledger: str) -> None:
    happened(ledger, "pay")
    hold_stubbornly(ledger)


@job_kind(
    "drills.stubborn_once", steps=(pay_stubbornly,), soft_time_limit=1, time_limit=2, lease=LEASE
)
def stubborn_once(run: Run, *, ledger: str) -> None:
    run(pay_stubbornly, ledger)
