from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_deadlines_alone"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued"), ("wait_reason", "unstartable")),
                fields=["wait_since"],
                name="jobs_job_unstartable",
            ),
        ),
    ]
