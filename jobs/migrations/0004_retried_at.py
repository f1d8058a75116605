from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0003_operations"),
        ("workspaces", "0001_initial"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="job", name="jobs_job_dead_letters"),
        migrations.RemoveIndex(model_name="job", name="jobs_job_newest"),
        migrations.RemoveIndex(model_name="operation", name="jobs_operation_newest"),
        migrations.AddField(
            model_name="job",
            name="retried_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RunSQL(
            """UPDATE jobs_job SET retried_at =
                (SELECT s.created_at FROM jobs_job s WHERE s.retry_of_id = jobs_job.id)
            WHERE id IN (SELECT retry_of_id FROM jobs_job)""",
            migrations.RunSQL.noop,
        ),
    ]
