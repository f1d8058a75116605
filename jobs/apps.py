from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class JobsConfig(AppConfig):
    name = "jobs"
    label = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from jobs import checks, ending, failures, tasks  # noqa: F401  ending registers a receiver
        from jobs.closing import stop_jobs
        from jobs.recovery import bulk, job_verbs
        from workspaces import closing

        failures.register()
        checks.register()
        closing.register("jobs", close=stop_jobs)
        job_verbs.register_verbs()
        bulk.register()
        # Every app's kinds are known before anything is enqueued, claimed or checked.
        autodiscover_modules("kinds")
        tasks.register()
