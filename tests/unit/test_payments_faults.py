"""The script of faults: what a fault means, and which call meets it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from examples.payments.faults import Fault, Script
from jobs.worker import identity


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(drop=True), Fault(effect=False)])
def test_a_spoilt_call_does_not_do_its_work(fault: Fault) -> None:
    assert not fault.works


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        Fault(stall_after=1.0),
        Fault(status=502, effect=True),
        Fault(drop=True, effect=True),
    ],
)
def test_a_call_that_is_good_or_told_to_work_does_its_work(fault: Fault) -> None:
    assert fault.works


def test_faults_meet_the_calls_of_their_route_in_order() -> None:
    script = Script()
    script.replace("POST /holds", [Fault(status=503, times=2), Fault(status=429)])

    met = [script.next("POST /holds").status for _ in range(4)]

    assert met == [503, 503, 429, None]
    assert script.next("POST /charges") == Fault()


def test_a_fault_without_a_number_of_times_stays_until_it_is_replaced() -> None:
    script = Script()
    script.replace("POST /holds", [Fault(status=503, times=None)])
    met = [script.next("POST /holds").status for _ in range(5)]
    script.replace("POST /holds", [])

    assert met == [503] * 5
    assert script.next("POST /holds") == Fault()


def test_a_fault_of_a_process_that_is_gone_is_gone() -> None:
    """Who breaks a service and is killed cannot mend it."""
    gone = f"{identity().rpartition('/')[0]}/0"
    script = Script()
    mine, its = (Fault(status=503, times=None, while_alive=name) for name in (identity(), gone))

    script.replace("POST /holds", [mine])
    assert script.next("POST /holds").status == 503
    script.replace("POST /holds", [its, Fault(status=429)])
    assert script.next("POST /holds").status == 429


@pytest.mark.parametrize(
    "told", [{"status": 99}, {"stall": 1}, {"times": 0}, {"stall_before": -1}, {"drop": "after"}]
)
def test_a_fault_that_makes_no_sense_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Fault.model_validate(told)
