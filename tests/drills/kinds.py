"""Kinds that do countable things and fail where they are told to."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from jobs.kinds import (
    CannotTell,
    DidNotHappen,
    Happened,
    Intent,
    Run,
    job_kind,
    step,
)
from tests.drills import asking, bulk, held, in_sql, talkative  # noqa: F401  found through this
from tests.drills.faults import strike
from tests.drills.ledger import effects, happened


@job_kind("drills.noop")
def noop(run: Run) -> None:
    pass


@step("first")
def first(ledger: str, fault: str, once_file: str) -> Any:
    happened(ledger, "first")
    return strike(fault, once_file)


@step("second")
def second(ledger: str) -> dict[str, Any]:
    happened(ledger, "second")
    return {"second": True}


@job_kind("drills.repeatable", steps=(first, second), retry_backoff=1, retry_jitter=False)
def repeatable(
    run: Run, *, ledger: str, fault: str = "none", once_file: str = ""
) -> dict[str, Any]:
    run(first, ledger, fault, once_file)
    return run(second, ledger)


@step.once("charge")
def charge(ledger: str, fault: str, once_file: str) -> Any:
    happened(ledger, "charge")
    return strike(fault, once_file)


@job_kind("drills.once", steps=(charge, second), max_retries=3, soft_time_limit=2, time_limit=8)
def once(run: Run, *, ledger: str, fault: str = "none", once_file: str = "") -> dict[str, Any]:
    run(charge, ledger, fault, once_file)
    return run(second, ledger)


def look(
    intent: Intent, ledger: str, fault: str, once_file: str
) -> Happened | DidNotHappen | CannotTell:
    """Ask the ledger what happened, or say what the file beside it says."""
    happened(ledger, "asked")
    script = Path(f"{ledger}.answer")
    if script.exists() and script.read_text() == "cannot_tell":
        return CannotTell("the provider keeps no records")
    if effects(ledger)["charge_found"]:
        return Happened({"found": True})
    return DidNotHappen()


@step.once("charge_found", reconcile=look)
def charge_found(ledger: str, fault: str, once_file: str) -> Any:
    happened(ledger, "charge_found")
    return strike(fault, once_file)


@step.once("charge_lost", reconcile=look)
def charge_lost(ledger: str, fault: str, once_file: str) -> Any:
    """Fails before its effect, so that ``look`` finds nothing."""
    out = strike(fault, once_file)
    happened(ledger, "charge_lost")
    return out


@job_kind("drills.reconciled", steps=(charge_found, second), soft_time_limit=2, time_limit=8)
def reconciled(
    run: Run, *, ledger: str, fault: str = "none", once_file: str = ""
) -> dict[str, Any]:
    found = run(charge_found, ledger, fault, once_file)
    run(second, ledger)
    return {"charge": found}


@job_kind("drills.not_happened", steps=(charge_lost, second), soft_time_limit=2, time_limit=8)
def not_happened(
    run: Run, *, ledger: str, fault: str = "none", once_file: str = ""
) -> dict[str, Any]:
    run(charge_lost, ledger, fault, once_file)
    return run(second, ledger)


@step.keyed("reserve", remembers=timedelta(hours=24))
def reserve(key: str, ledger: str, fault: str, once_file: str) -> Any:
    happened(ledger, f"key:{key}")
    return strike(fault, once_file)


@job_kind("drills.keyed", steps=(reserve, second), max_retries=2)
def keyed(run: Run, *, ledger: str, fault: str = "none", once_file: str = "") -> dict[str, Any]:
    run(reserve, ledger, fault, once_file)
    return run(second, ledger)


@step("page", many=True)
def page(ledger: str, number: int) -> dict[str, Any]:
    happened(ledger, f"page{number}")
    return {"number": number}


@job_kind("drills.pages", steps=(page,))
def pages(run: Run, *, ledger: str, count: int, fail_at: int = -1, once_file: str = "") -> int:
    for number in range(count):
        if number == fail_at:
            strike("transient", once_file)
        run(page.at(number), ledger, number)
    return count


@step("login", carry=False)
def login(ledger: str) -> dict[str, Any]:
    happened(ledger, "login")
    return {"token": "canary-token-from-login"}


@job_kind(
    "drills.secretive",
    steps=(login, first),
    redact=("card.number", "token"),
    max_retries=0,
    runbook="https://runbooks.example.com/secretive",
)
def secretive(
    run: Run, *, ledger: str, card: dict[str, Any], fault: str = "none"
) -> dict[str, Any]:
    run(login, ledger)
    if fault == "leak":
        raise RuntimeError(
            f"card {card['number']} refused: {json.dumps(card)} password=hunter2-canary"
        )
    run(first, ledger, fault, "")
    return {"ok": True}


@job_kind("drills.kills_itself", max_losses=2, lease=timedelta(seconds=3))
def kills_itself(run: Run, *, ledger: str) -> None:
    happened(ledger, "killed")
    strike("kill")


@job_kind("drills.throttled", steps=(first,), throttle="bank", retry_backoff=1)
def throttled(run: Run, *, ledger: str, fault: str = "none", once_file: str = "") -> None:
    run(first, ledger, fault, once_file)


def account(*, account: str, **_: Any) -> str:
    return f"account:{account}"


@job_kind("drills.account", steps=(first,), throttle=account)
def by_account(
    run: Run, *, ledger: str, account: str, fault: str = "none", once_file: str = ""
) -> None:
    run(first, ledger, fault, once_file)


@job_kind("drills.shared", steps=(second,), per_workspace=2)
def shared(run: Run, *, ledger: str) -> None:
    run(second, ledger)


@job_kind("drills.gated", steps=(second,), throttle=account, per_gate=2)
def gated(run: Run, *, ledger: str, account: str) -> None:
    run(second, ledger)


@job_kind("drills.locking", steps=(first, charge_found), soft_time_limit=2, time_limit=8)
def locking(run: Run, *, ledger: str, keep: bool = False, fault: str = "none") -> None:
    run.lock("stack:prod", keep=keep)
    run(charge_found, ledger, fault, "")


@job_kind("drills.grown", max_retries=0)
def grown(run: Run, *, ledger: str) -> None:
    """It gets a parameter in the next release; see ``tests.newer``."""
    happened(ledger, "grey")
