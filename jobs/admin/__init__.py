"""The console's pages about jobs. They ask; the services of ``jobs.recovery`` decide and do."""

from jobs.admin import job, lists, operation, records

__all__ = ["job", "lists", "operation", "records"]
