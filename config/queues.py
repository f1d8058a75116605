"""Which queues exist, how many processes serve each, and how long a stop may take.

One table for everybody: Celery declares exactly these queues, ``docker/compose.yaml`` runs one
worker for each (a test compares them), and a publish to any other name fails at once.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """One queue and the worker that serves it.

    ``grace_seconds`` is what a supervisor waits between SIGTERM and SIGKILL. It is at least the
    longest step that runs on the queue: a worker that is killed earlier loses the attempt, and
    with it the certainty about a ``once`` step.
    """

    name: str
    concurrency: int
    grace_seconds: int
    purpose: str


QUEUES: tuple[Queue, ...] = (
    Queue("default", 4, 60, "Jobs that name no queue of their own."),
    Queue("provisioning", 2, 960, "Infrastructure runs; a stop waits for a running apply."),
    Queue("sync", 2, 60, "Reading other systems page by page."),
    Queue("webhooks", 4, 60, "Deliveries to customers' endpoints, apart from everyone's work."),
    Queue("webhooks_slow", 4, 60, "Deliveries to endpoints that take long, or are not known yet."),
    Queue("operations", 1, 60, "Bulk deeds, one item at a time."),
)
