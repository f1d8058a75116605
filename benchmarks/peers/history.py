"""Firedoor with a past: tables with many ended jobs, and the time that claims and passes take.

No message is sent and no worker runs: the statements are those of the kernel, sent from here.
"""

import os
import time
import uuid

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()

from django.db import connection  # noqa: E402

from benchmarks import kinds  # noqa: E402
from jobs import moves  # noqa: E402
from jobs.enqueue import enqueue_many  # noqa: E402
from jobs.fence import AttemptRecord  # noqa: E402
from jobs.retention import prune  # noqa: E402
from jobs.states import AttemptOutcome  # noqa: E402
from jobs.sweep import sweep  # noqa: E402
from jobs.worker import identity  # noqa: E402
from workspaces.models import Workspace  # noqa: E402

KIND = kinds.noop.spec.name
WAITING, RUNNING = 1000, 50  # beside the ended ones, in tables of any size
# Ended over the last 29 days, of which retention forgets none.
_ENDED = """INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, queue, state,
  attempt, worker, started_at, finished_at, created_at, root_id, actor)
SELECT id, %s, %s, 'past-' || n, '{}', '', 'default', 'succeeded', 1, 'w', at, at, at, id, 'system'
FROM (SELECT n, gen_random_uuid() AS id, now() - (n %% 2505600) * interval '1 second' AS at
  FROM generate_series(1, %s) n) ended"""
_ATTEMPTS = """INSERT INTO jobs_attempt (job_id, number, outcome, worker, started_at, kill_at,
  ended_at)
SELECT id, 1, 'succeeded', 'w', started_at, finished_at, finished_at
FROM jobs_job WHERE state = 'succeeded'"""
_LIVE = """INSERT INTO jobs_job (id, workspace_id, kind, key, params, params_digest, queue, state,
  run_at, wake_at, lease_until, worker, root_id, actor)
SELECT id, %s, %s, 'live-' || n, '{}', '', 'default',
  CASE WHEN n > %s THEN 'running' ELSE 'queued' END, now() + interval '9 days',
  now() + interval '9 days', CASE WHEN n > %s THEN now() + interval '9 days' END, 'w', id, 'system'
FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, %s) n) live"""


def fill(ended: int) -> None:
    """Make a past of so many ended jobs, in the shape that autovacuum leaves."""
    workspace, _made = Workspace.objects.get_or_create(slug="bench", name="bench")
    with connection.cursor() as cursor:
        cursor.execute(_ENDED, [workspace.pk, KIND, ended])
        cursor.execute(_ATTEMPTS)
        cursor.execute(_LIVE, [workspace.pk, KIND, WAITING, WAITING, WAITING + RUNNING])
        cursor.execute("VACUUM ANALYZE")
    sweep()


def claims(count: int) -> list[float]:
    """The milliseconds of each claim of so many jobs that are due; all are ended afterwards."""
    workspace = Workspace.objects.get(slug="bench")
    intents = [(kinds.noop.s(), uuid.uuid4().hex) for _ in range(count)]
    jobs = enqueue_many(intents, workspace=workspace)
    taken = []
    for job in jobs:
        begun = time.perf_counter()
        claim = moves.claim(job.pk, KIND, worker=identity(), lease=60.0, time_limit=900.0)
        taken.append(1000 * (time.perf_counter() - begun))
        if claim is None:
            raise RuntimeError("a job that is due could not be claimed")
        moves.succeed(claim.fence, result="null", record=AttemptRecord(AttemptOutcome.SUCCEEDED))
    return taken


def passes(count: int) -> list[float]:
    """The milliseconds of each of so many upkeep passes that find nothing to do."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        done = sweep(reap_now=True)
        taken.append(1000 * (time.perf_counter() - begun))
        if done.reaped or done.faults:
            raise RuntimeError(f"the pass found something: {done}")
    return taken


def pruning() -> float:
    """The milliseconds of the hourly look for what retention may forget."""
    begun = time.perf_counter()
    prune()
    return 1000 * (time.perf_counter() - begun)
