"""Dead letters by the hundred, people who may deal with them, and an engine run by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs import runner
from jobs.models import Job, Operation, OperationItem
from jobs.models.ids import uuid7
from jobs.recovery.course import counts
from jobs.recovery.draft import Care, draft
from jobs.recovery.job_verbs import ENGINE
from jobs.recovery.operation import start
from jobs.states import State
from tests.drills import bulk
from workspaces.actors import Actor, as_actor
from workspaces.models import Membership, Workspace
from workspaces.permissions import Role

KIND = bulk.bulk.name
WHY = "the provider is back, see INC-42"
QUICK = Care(rate_per_minute=6000)
DEAD_ONES = f"state=dead,kind={KIND}"


def member(workspace: Workspace, role: Role = Role.OPERATOR, name: str = "ana") -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, workspace=workspace, role=role)
    return user


def actor(user: User) -> Actor:
    """With the grants of this moment."""
    return as_actor(User.objects.get(pk=user.pk))


def rows(workspace: Workspace, count: int, prefix: str = "o", **values: Any) -> list[Job]:
    """Many jobs at once, dead unless told otherwise, in the order of their keys."""
    ids = sorted(uuid7() for _ in range(count))
    told = {"state": State.DEAD, "cause": "terminal", "finished_at": Now(), "kind": KIND}
    jobs = [
        Job(
            id=job_id,
            workspace=workspace,
            key=f"{prefix}-{number:04d}",
            params_digest="",
            queue="default",
            actor="system",
            root_id=job_id,
            **{"params": {}, **told, **values},
        )
        for number, job_id in enumerate(ids)
    ]
    Job.objects.bulk_create(jobs)
    return jobs


def drafted(workspace: Workspace, user: User, **more: Any) -> Operation:
    told = {"matching": DEAD_ONES, "care": QUICK, **more}
    return draft(workspace, told.pop("verb", "resume"), actor=actor(user), **told)


def started(operation: Operation, user: User) -> Operation:
    return start(operation.pk, actor=actor(user), reason=WHY)


def engine_of(operation: Operation) -> Job:
    """The newest job that drives it."""
    operation.refresh_from_db()
    assert operation.job_id is not None
    return Job.objects.get(pk=operation.job_id)


def behind_its_pace(operation: Operation) -> None:
    """Let it be late, which it makes good: two seconds of its rate at once."""
    Operation.objects.filter(pk=operation.pk).update(paced_until=Now() - timedelta(hours=1))


def turn(operation: Operation) -> Operation:
    """One execution of the engine, whatever it had to wait for; its gate still holds it."""
    engine = engine_of(operation)
    Job.objects.filter(pk=engine.pk, state=State.QUEUED).update(run_at=Now())
    behind_its_pace(operation)
    runner.execute(ENGINE, engine.pk)
    operation.refresh_from_db()
    return operation


def turns(operation: Operation, most: int = 50) -> Operation:
    """Executions of the engine until it ended or something holds it."""
    for _ in range(most):
        before = counts(operation.pk)
        turn(operation)
        if operation.state != "running" or before == counts(operation.pk):
            break
    return operation


def outcomes(operation: Operation) -> dict[str, int]:
    """How many items have each outcome, the absent ones left out."""
    return {outcome: count for outcome, count in counts(operation.pk).items() if count}


def codes(operation: Operation) -> dict[str, str]:
    """Why each item was not done, by its job's key."""
    items = OperationItem.objects.filter(operation=operation).exclude(code="")
    keys = {str(pk): key for pk, key in Job.objects.values_list("pk", "key")}
    return {keys.get(item.object_id, item.object_id): item.code for item in items}


def successors(workspace: Workspace) -> int:
    """How many jobs were retried, the engines aside."""
    retried = Job.objects.filter(workspace=workspace, retry_of__isnull=False)
    return retried.exclude(kind=ENGINE).count()
