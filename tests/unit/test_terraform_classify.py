"""The table beyond what was recorded, and the promises that hold for every row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioning.terraform.classify import Class, Facts, Phase, classify, outcome
from provisioning.terraform.sentences import SENTENCES
from provisioning.terraform.stream import (
    Change,
    Diagnostic,
    Entry,
    Progress,
    Stream,
    Summary,
)

VERSION = Stream(tool="1.11.4")
BEGAN = (Entry("terraform_data.a", "create", Progress.STARTED),)
LOCK = "Error acquiring the state lock"


def said(summary: str, detail: str = "", **more: Any) -> Stream:
    wrong = Diagnostic(is_error=True, summary=summary, detail=detail)
    return Stream(tool="1.11.4", diagnostics=(wrong,), **more)


def read(phase: Phase, rc: int | None, stream: Stream = VERSION, **facts: bool) -> str:
    seen = classify(phase, rc, stream, "", Facts(**facts))
    return f"{seen.kind.value}/{seen.code}"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("HTTP remote state already locked: ID=abc", "transient/state_locked"),
        (
            "LOCK http://127.0.0.1:1/state giving up after 1 attempt(s)",
            "transient/backend_unavailable",
        ),
        ("HTTP remote state endpoint invalid auth", "terminal/backend_auth"),
        ("Unsupported state file format: bad", "terminal/state_corrupt"),
        ("write x.tfstate: no space left on device", "terminal/runner_disk"),
        ("something nobody has seen", "terminal/state_lock_failed"),
    ],
)
def test_one_lock_summary_has_six_meanings(detail: str, expected: str) -> None:
    assert read(Phase.PLAN, 1, said(LOCK, detail)) == expected
    assert read(Phase.APPLY, 1, said(LOCK, detail)) == expected


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("Unsupported Terraform Core version", "terminal/tool_version"),
        ("Unsupported OpenTofu Core version", "terminal/tool_version"),
        ("Instance cannot be destroyed", "terminal/condition_failed"),
        ("Value for undeclared variable", "terminal/config_invalid"),
        ("Required plugins are not installed", "terminal/not_initialised"),
        ("Nobody ever saw this message", "terminal/unclassified"),
    ],
)
def test_a_refused_plan_is_terminal_by_its_own_words(summary: str, expected: str) -> None:
    assert read(Phase.PLAN, 1, said(summary)) == expected


@pytest.mark.parametrize("rc", [2, 11, 134, 137, -1, -2, -6, -9, -13, -15])
def test_an_apply_that_did_not_end_by_itself_is_uncertain_even_without_an_event(rc: int) -> None:
    assert read(Phase.APPLY, rc) == "uncertain/crashed"
    assert read(Phase.PLAN, rc) == "transient/plan_crashed_or_artifact_missing"
    assert read(Phase.INIT, rc) == "transient/init_crashed"


def test_success_needs_the_exit_code_and_the_summary() -> None:
    done = Stream(tool="1.11.4", ledger=BEGAN, summary=Summary("apply", 1, 0, 0))
    planned = Stream(tool="1.11.4", summary=Summary("plan", 1, 0, 0))

    assert read(Phase.APPLY, 0, done) == "ok/applied"
    assert read(Phase.APPLY, 0, planned) == "uncertain/applied_without_log"
    assert read(Phase.APPLY, 1, said("Some failure", ledger=BEGAN)) == "partial/apply_partial"


def test_a_plan_needs_its_file() -> None:
    planned = Stream(tool="1.11.4", summary=Summary("plan", 0, 0, 0))

    assert read(Phase.PLAN, 2, planned, plan_ok=True, applyable=True) == "ok/planned"
    assert read(Phase.PLAN, 2, planned, plan_ok=True) == "ok/planned"
    assert read(Phase.PLAN, 0, planned, plan_ok=True) == "ok/no_changes"
    assert (
        read(Phase.PLAN, 2, planned, plan_ok=False) == "transient/plan_crashed_or_artifact_missing"
    )
    assert (
        read(Phase.PLAN, 2, VERSION, plan_ok=True) == "transient/plan_crashed_or_artifact_missing"
    )


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (said("Saved plan is stale"), "stale_after_own_attempt"),
        (said("Saved plan does not match the given state"), "stale_after_own_attempt"),
        (said(LOCK, "state already locked: ID=x"), "locked_after_own_attempt"),
        (said('Failed to load "plan.bin" as a plan file'), "failed_after_own_attempt"),
        (said("operation canceled", interrupts=1), "failed_after_own_attempt"),
    ],
)
def test_after_an_own_attempt_no_refusal_means_that_nothing_happened(
    stream: Stream, code: str
) -> None:
    assert read(Phase.APPLY, 1, stream, prior_attempt_started=True) == f"uncertain/{code}"


def test_a_stop_is_told_from_the_error_that_it_looks_like() -> None:
    waiting = said(LOCK, "resource temporarily unavailable", interrupts=1)

    assert read(Phase.PLAN, 1, waiting, cancel_requested=True) == "terminal/canceled"
    assert read(Phase.PLAN, 1, waiting) == "transient/interrupted"
    assert read(Phase.APPLY, 1, waiting, cancel_requested=True) == "terminal/canceled"
    assert read(Phase.INIT, -2, cancel_requested=True) == "terminal/canceled"
    assert (
        read(Phase.APPLY, 1, said("halted", interrupts=1, ledger=BEGAN))
        == "partial/canceled_partial"
    )


def test_a_state_that_was_not_saved_outweighs_what_is_in_the_log() -> None:
    failed = said("Failed to save state", "Error saving state: HTTP error: 500", ledger=BEGAN)

    assert read(Phase.APPLY, 1, failed) == "uncertain/state_not_persisted"


def test_an_apply_that_failed_without_a_word_is_uncertain() -> None:
    assert read(Phase.APPLY, 1) == "uncertain/log_incomplete"


def test_127_means_a_missing_tool_only_when_nothing_was_said() -> None:
    assert read(Phase.APPLY, 127, Stream()) == "terminal/binary_missing"
    assert read(Phase.PLAN, 127, Stream()) == "terminal/binary_missing"
    assert read(Phase.APPLY, 127, Stream(ledger=BEGAN)) == "uncertain/crashed"


def test_a_log_of_another_format_is_not_believed() -> None:
    foreign = Stream(tool="9.0.0", is_foreign=True)

    assert read(Phase.PLAN, 2, foreign, plan_ok=True) == "terminal/stream_unsupported"
    assert read(Phase.APPLY, 0, foreign) == "uncertain/applied_without_log"


def test_init_speaks_like_people_and_wraps_its_lines() -> None:
    stderr = (
        "Error: Failed to query available provider\npackages\n\nCould not retrieve: lookup x: no\n"
        "such host"
    )

    seen = classify(Phase.INIT, 1, Stream(), stderr)

    assert (seen.kind, seen.code) == (Class.TRANSIENT, "registry_unavailable")
    assert classify(Phase.INIT, 0, Stream()).kind is Class.OK


streams = st.builds(
    Stream,
    tool=st.sampled_from(["", "1.11.4"]),
    is_foreign=st.booleans(),
    planned=st.just((Change("terraform_data.a", "create"),)),
    ledger=st.sampled_from([(), BEGAN]),
    summary=st.sampled_from([None, Summary("plan", 1, 0, 0), Summary("apply", 1, 0, 0)]),
    diagnostics=st.lists(
        st.builds(
            Diagnostic,
            st.booleans(),
            st.sampled_from(["", "Saved plan is stale", "Failed to save state", LOCK, "odd"]),
            st.sampled_from(["", "already locked", "no space left on device"]),
        ),
        max_size=2,
    ).map(tuple),
    interrupts=st.integers(0, 2),
)
codes = st.sampled_from([None, 0, 1, 2, 11, 127, -1, -2, -9, -13])
facts = st.builds(
    Facts,
    plan_ok=st.none() | st.booleans(),
    applyable=st.none() | st.booleans(),
    cancel_requested=st.booleans(),
    prior_attempt_started=st.booleans(),
)


@given(rc=codes, stream=streams, known=facts)
def test_an_apply_that_began_never_counts_as_nothing(
    rc: int | None, stream: Stream, known: Facts
) -> None:
    seen = classify(Phase.APPLY, rc, stream, "", known)

    assert not (stream.ledger and seen.nothing_happened)
    assert not (rc not in (0, 1, 127) and seen.kind is not Class.UNCERTAIN)
    assert (seen.kind is Class.OK) == (rc == 0 and stream.finished("apply"))


@given(phase=st.sampled_from([Phase.INIT, Phase.PLAN]), rc=codes, stream=streams, known=facts)
def test_what_only_reads_is_never_partial_or_uncertain(
    phase: Phase, rc: int | None, stream: Stream, known: Facts
) -> None:
    assert classify(phase, rc, stream, "", known).kind in (
        Class.OK,
        Class.TRANSIENT,
        Class.TERMINAL,
    )


@pytest.mark.parametrize("code", SENTENCES)
def test_every_sentence_says_what_was_not_done_or_what_to_do_next(code: str) -> None:
    for kind in Class:
        sentence = outcome(kind, code).sentence
        assert sentence.endswith(".")
        assert ("Nothing was changed." in sentence) == (kind.value in ("transient", "terminal"))
