# Apart from 0004: no index is made of a table that the same transaction has just changed.

from django.db import migrations, models
from django.db.models import F, Q

from workspaces.models.newest import NewestFirst

DEAD_LETTER = Q(("resolved_at__isnull", True), ("retried_at__isnull", True), ("state", "dead"))


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_retried_at"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(F("workspace"), NewestFirst(), name="jobs_job_newest"),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(F("workspace"), NewestFirst(), name="jobs_operation_newest"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=DEAD_LETTER,
                fields=["workspace", "-finished_at"],
                name="jobs_job_dead_letters",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("workspace"),
                F("state"),
                NewestFirst(),
                condition=Q(("state__in", ["queued", "dead", "cancelled"])),
                name="jobs_job_in_state",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("workspace"), NewestFirst(), condition=DEAD_LETTER, name="jobs_job_letters"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("workspace"),
                NewestFirst(),
                condition=Q(("cause", "uncertain")),
                name="jobs_job_uncertain",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("workspace"),
                F("request_id"),
                NewestFirst(),
                condition=Q(("request_id", ""), _negated=True),
                name="jobs_job_of_request",
            ),
        ),
    ]
