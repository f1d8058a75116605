"""Bad input gets a typed error with a code and a sentence, and nothing is written."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from jobs import errors
from jobs.enqueue import enqueue
from jobs.models import Event, Job
from jobs.recovery.cancel import cancel
from jobs.recovery.reconcile import reconcile
from jobs.recovery.resolve import resolve
from jobs.recovery.retry import retry
from tests.drills.kinds import noop, repeatable
from tests.integration.kernel.scene import attempts, counts, new_workspace
from workspaces.actors import SYSTEM
from workspaces.errors import FiredoorError, NoSuchWorkspace, WorkspaceClosed
from workspaces.models import AuditEvent, Membership, Workspace
from workspaces.permissions import NotAllowed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

GOOD: dict[str, Any] = {"kind": "drills.repeatable", "key": "k", "params": {"ledger": "nowhere"}}


def _pages(count: object) -> dict[str, Any]:
    return {"kind": "drills.pages", "params": {"ledger": "x", "count": count}}


REFUSED: dict[str, tuple[dict[str, Any], type[FiredoorError]]] = {
    "unknown kind": ({"kind": "drills.nothing"}, errors.UnknownKind),
    "missing param": ({"params": {}}, errors.ParamsInvalid),
    "unknown param": ({"params": {"ledger": "x", "extra": 1}}, errors.ParamsInvalid),
    "wrong type": ({"params": {"ledger": 7}}, errors.ParamsInvalid),
    "a number as text": (_pages("5"), errors.ParamsInvalid),
    "a truth as a number": (_pages(count=True), errors.ParamsInvalid),
    "not JSON": ({"params": {"ledger": object()}}, errors.ParamsInvalid),
    "a datetime": ({"params": {"ledger": datetime(2030, 1, 1)}}, errors.ParamsInvalid),  # noqa: DTZ001
    "not a number": (_pages(float("nan")), errors.ParamsInvalid),
    "NUL in params": ({"params": {"ledger": "a\x00b"}}, errors.ParamsInvalid),
    "64 kB and more": ({"params": {"ledger": "x" * 65_536}}, errors.ParamsTooLarge),
    "empty key": ({"key": ""}, errors.KeyInvalid),
    "blank key": ({"key": "  "}, errors.KeyInvalid),
    "NUL in key": ({"key": "a\x00"}, errors.KeyInvalid),
    "over-long key": ({"key": "k" * 256}, errors.KeyInvalid),
    "reserved http:": ({"key": "http:1"}, errors.KeyReserved),
    "reserved schedule:": ({"key": "schedule:1"}, errors.KeyReserved),
    "reserved, in capitals": ({"key": "HTTP:1"}, errors.KeyReserved),
    "reserved, after a space": ({"key": " http:1"}, errors.KeyInvalid),
    "reserved operation:": ({"key": "operation:1"}, errors.KeyReserved),
    "naive eta": ({"eta": datetime(2030, 1, 1)}, errors.MomentInvalid),  # noqa: DTZ001
    "negative countdown": ({"countdown": -1}, errors.MomentInvalid),
    "unknown workspace": ({"workspace": "nobody"}, NoSuchWorkspace),
    "unknown workspace id": ({"workspace": 10**9}, NoSuchWorkspace),
}  # fmt: skip


def _is_told(error: FiredoorError) -> None:
    assert error.code == error.code.lower() != ""
    assert error.sentence.endswith(".")
    assert "othing was" in error.sentence


@pytest.mark.parametrize("case", REFUSED)
def test_an_enqueue_is_refused(workspace: Workspace, case: str) -> None:
    changed, expected = REFUSED[case]
    before = counts(Job, Event)
    with pytest.raises(expected) as caught:
        enqueue(**{"workspace": workspace, **GOOD, **changed})
    _is_told(caught.value)
    assert counts(Job, Event) == before


def test_a_closed_workspace_is_refused(workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(closed_at="2026-01-01T00:00:00Z")
    with pytest.raises(WorkspaceClosed) as caught:
        enqueue(workspace=workspace, **GOOD)
    _is_told(caught.value)
    assert not Job.objects.exists()


def test_the_same_key_with_other_params_is_refused(workspace: Workspace, ledger: str) -> None:
    first = repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k")
    with pytest.raises(errors.KeyConflict) as caught:
        repeatable.s(ledger="elsewhere").enqueue(workspace=workspace, key="k")
    _is_told(caught.value)
    assert str(first.pk) in caught.value.sentence
    assert Job.objects.count() == 1


def test_the_same_key_with_the_same_params_is_the_newest_job(
    workspace: Workspace, ledger: str
) -> None:
    intent = repeatable.s(ledger=ledger, fault="terminal")
    job = attempts(intent.enqueue(workspace=workspace, key="k"))
    successor = retry(job.pk, mode="resume", actor=SYSTEM, reason="why not")
    again = intent.enqueue(workspace=workspace, key="k")
    assert (again.pk, again.created) == (successor.pk, False)


def test_one_key_is_free_in_another_workspace_and_for_another_kind(
    workspace: Workspace, ledger: str
) -> None:
    repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k")
    assert repeatable.s(ledger=ledger).enqueue(workspace=new_workspace(), key="k").created
    assert noop.s().enqueue(workspace=workspace, key="k").created


VERBS: dict[str, Callable[..., Job]] = {
    "resume": lambda job_id, **who: retry(job_id, mode="resume", **who),
    "restart": lambda job_id, **who: retry(job_id, mode="restart", **who),
    "cancel": cancel,
    "resolve": resolve,
    "reconcile": lambda job_id, **who: reconcile(job_id, step="first", outcome="happened", **who),
}
ON_A_SUCCESS = {
    "resume": errors.NotRetryable,
    "restart": errors.NotRetryable,
    "cancel": errors.NotCancellable,
    "resolve": errors.NotResolvable,
    "reconcile": errors.NotReconcilable,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_a_job_that_succeeded_is_refused(
    workspace: Workspace, ledger: str, verb: str
) -> None:
    job = attempts(repeatable.s(ledger=ledger).enqueue(workspace=workspace, key="k"))
    before = counts(Job, Event)
    with pytest.raises(ON_A_SUCCESS[verb]) as caught:
        VERBS[verb](job.pk, actor=SYSTEM, reason="a mistake")
    _is_told(caught.value)
    assert counts(Job, Event) == before
    assert AuditEvent.objects.get().result == ON_A_SUCCESS[verb].code


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("given", ["unknown", "nonsense"])
def test_a_verb_on_no_job_is_refused(transactional_db: None, verb: str, given: str) -> None:
    job_id = uuid.uuid4() if given == "unknown" else "no-id"
    with pytest.raises(errors.JobNotFound) as caught:
        VERBS[verb](job_id, actor=SYSTEM, reason="a mistake")
    _is_told(caught.value)


@pytest.mark.parametrize("verb", VERBS)
def test_a_stranger_is_told_that_there_is_no_such_job(
    workspace: Workspace, ledger: str, verb: str
) -> None:
    job = attempts(
        repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="k")
    )
    stranger = User.objects.create_user("stranger", is_superuser=True)
    Membership.objects.create(user=stranger, workspace=new_workspace(), role="admin")
    before = counts(Job, Event, AuditEvent)
    with pytest.raises(errors.JobNotFound):
        VERBS[verb](job.pk, actor=stranger, reason="curiosity")
    assert counts(Job, Event, AuditEvent) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_viewer_lacks_the_right_and_is_told_its_name(
    workspace: Workspace, ledger: str, verb: str
) -> None:
    job = attempts(
        repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="k")
    )
    viewer = User.objects.create_user("viewer")
    Membership.objects.create(user=viewer, workspace=workspace, role="viewer")
    with pytest.raises(NotAllowed) as caught:
        VERBS[verb](job.pk, actor=viewer, reason="eagerness")
    assert caught.value.right == "jobs.operate"
    _is_told(caught.value)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("reason", ["", "   ", "x" * 3000])
def test_a_verb_needs_a_reason(workspace: Workspace, ledger: str, verb: str, reason: str) -> None:
    job = attempts(
        repeatable.s(ledger=ledger, fault="terminal").enqueue(workspace=workspace, key="k")
    )
    with pytest.raises(FiredoorError) as caught:
        VERBS[verb](job.pk, actor=SYSTEM, reason=reason)
    _is_told(caught.value)
    assert Job.objects.count() == 1


def test_a_delayed_job_waits_for_its_moment(workspace: Workspace) -> None:
    job = noop.s().enqueue(workspace=workspace, key="k", countdown=60)
    assert job.wait_reason == "scheduled"
    assert timedelta(seconds=50) < job.run_at - job.created_at <= timedelta(seconds=61)
    assert job.deadline_at is not None
    assert job.deadline_at - job.run_at == timedelta(hours=24)
