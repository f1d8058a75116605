"""Are there workers for all queues, and do they run what this code runs?

Workers are asked over the broker and have ``WORKER_SECONDS`` to answer.
*Hole:* a worker's main process answers; a child of it that hangs does not show here, but as jobs
past their limits.
"""

from __future__ import annotations

from collections import defaultdict

from django.conf import settings
from django.db.models import Count

from config.doctor.answer import Answer, fail, ok, warn
from config.doctor.check import check
from config.doctor.sight import WORKER_SECONDS, Sight
from jobs import registry
from jobs.models import Job
from jobs.states import State

FLOOD = 1000


@check("workers.answer", needs="broker.reachable", command="celery -A config inspect ping")
def answer(sight: Sight) -> Answer:
    """Does any worker answer?

    Without one nothing runs. Jobs wait in their rows; start workers and they are taken.
    """
    if not sight.workers:
        return fail(f"No worker answered within {WORKER_SECONDS} s.")
    return ok(f"{len(sight.workers)} workers answer.")


@check(
    "queues.unserved",
    needs="workers.answer",
    command="celery -A config worker --queues ROW --hostname ROW@%h",
)
def unserved(sight: Sight) -> Answer:
    """Does every queue have a worker?

    Jobs of a queue that nobody serves wait until their deadline ends them.
    """
    served = frozenset[str]().union(*(worker.queues for worker in sight.workers))
    missing = [queue for queue in settings.FIREDOOR_QUEUES if queue not in served]
    if not missing:
        return ok("Every queue has a worker.")
    waiting = Job.objects.filter(state=State.QUEUED, queue__in=missing).count()
    sentence = f"Nobody serves {', '.join(missing)}; {waiting} jobs are queued there."
    return (fail if waiting else warn)(sentence, missing)


@check(
    "workers.strangers", needs="workers.answer", command="celery -A config inspect active_queues"
)
def strangers(sight: Sight) -> Answer:
    """Does every worker serve a queue of ours?

    One that serves none was started with a misspelt --queues, or belongs to another installation:
    then both share one broker database, which they must not.
    """
    known = frozenset(settings.FIREDOOR_QUEUES)
    lost = [worker.name for worker in sight.workers if not worker.queues & known]
    if lost:
        return warn("These workers serve none of our queues.", lost)
    return ok("Every worker serves a queue of ours.")


@check("workers.kinds", needs="workers.answer", command="celery -A config inspect registered")
def kinds(sight: Sight) -> Answer:
    """Do the workers know the kinds of job that this code enqueues for them?

    During a rolling deploy the old ones do not yet. A job that only meets those waits as
    *unstartable*, and is dead an hour later.
    """
    missing: dict[str, list[str]] = defaultdict(list)
    for spec in registry.KINDS.values():
        for worker in sight.workers:
            if spec.queue in worker.queues and spec.name not in worker.kinds:
                missing[worker.name].append(spec.name)
    if not missing:
        return ok("Every worker knows the kinds of its queues.")
    sentence = "; ".join(f"{name} lacks {', '.join(lacks[:3])}" for name, lacks in missing.items())
    return warn(f"Workers run other code: {sentence}.", missing)


@check("workers.visibility", needs="workers.answer", command="celery -A config inspect stats")
def visibility(sight: Sight) -> Answer:
    """Do all processes agree on the visibility timeout?

    Firedoor's own workers note nothing in the broker that could be given out again. A worker with
    another timeout has other settings: a release that is older, or somebody else's.
    """
    ours = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    others = [worker.name for worker in sight.workers if worker.visibility != ours]
    if others:
        return warn(f"These workers have a visibility timeout other than {ours} s.", others)
    return ok(f"The visibility timeout is {ours} s everywhere.")


@check(
    "queues.length",
    needs="workers.answer",
    command='redis-cli -u "$REDIS_URL" lrange ROW 0 2',
)
def length(sight: Sight) -> Answer:
    """Do messages and queued jobs belong together?

    A message only wakes a worker, so a few more or fewer mean nothing. Many more messages than
    queued jobs are copies, or come from elsewhere: workers are busy finding nothing to do.
    """
    rows = Job.objects.filter(state=State.QUEUED).values_list("queue").annotate(Count("pk"))
    queued = dict(rows)
    long = {
        queue: messages
        for queue in settings.FIREDOOR_QUEUES
        if (messages := sight.broker.llen(queue)) > FLOOD + 2 * queued.get(queue, 0)
    }
    if not long:
        return ok("No queue holds many more messages than jobs.")
    words = "; ".join(
        f"{queue} holds {messages} messages for {queued.get(queue, 0)} jobs"
        for queue, messages in long.items()
    )
    return warn(f"{words}.", long)
