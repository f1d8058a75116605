# The index of what stands behind gates holds what is under way, too (ADR 29).

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0006_probes_and_lanes"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="job", name="jobs_job_behind_gate"),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["gate", "workspace", "wake_at"],
                condition=Q(("finished_at__isnull", True), Q(("gate", ""), _negated=True)),
                name="jobs_job_behind_gate",
            ),
        ),
    ]
