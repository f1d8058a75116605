"""Can the database be used, is it durable, does it fit this code, and has it room?"""

from __future__ import annotations

from django.conf import settings
from django.db import Error, NotSupportedError, connection
from django.db.migrations.executor import MigrationExecutor

from config.doctor.answer import Answer, fail, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight
from config.queues import QUEUES

OLDEST = 150000  # the oldest PostgreSQL that the tests have run on
QUERY_MILLISECONDS = 10_000
WEB_CONNECTIONS = 8  # two processes of four threads, as docker/Dockerfile starts them
CROWDED = 0.9


@check("database.reachable", command="manage.py dbshell")
def reachable(_sight: Sight) -> Answer:
    """Does the database answer?

    It holds the truth about every job; without it nothing is enqueued, started or finished.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            if connection.vendor == "postgresql":
                cursor.execute(f"SET statement_timeout = {QUERY_MILLISECONDS}")
    except (Error, NotSupportedError) as error:
        return fail(f"The database does not answer: {type(error).__name__}: {error}")
    return ok(f"The database {_name()} answers.")


def _name() -> str:
    database = connection.settings_dict
    host = database.get("HOST") or database.get("OPTIONS", {}).get("host") or ""
    return f"{database['NAME']} at {host}" if host else str(database["NAME"])


@check("database.version", needs="database.reachable", command="manage.py dbshell")
def version(_sight: Sight) -> Answer:
    """Is the server one that Firedoor is tested on?

    Claims and checkpoints are single statements that lean on how the server locks rows. SQLite is
    for one machine: it has one writer at a time, and no worker processes.
    """
    if connection.vendor != "postgresql":
        number = ".".join(map(str, connection.Database.sqlite_version_info))  # type: ignore[attr-defined]
        return ok(f"SQLite {number}, for one machine.")
    number = connection.pg_version  # type: ignore[attr-defined]
    sentence = f"PostgreSQL {number // 10000}.{number % 10000}"
    if number < OLDEST:
        return warn(f"{sentence} is older than what Firedoor is tested on.")
    return ok(f"{sentence}.")


@check(
    "database.durability",
    needs="database.reachable",
    command="manage.py dbshell  # SHOW fsync; SHOW full_page_writes; SHOW synchronous_commit",
)
def durability(_sight: Sight) -> Answer | None:
    """Does what was committed survive a crash of the database's machine?

    "Nothing enqueued is lost" and "a once step never runs twice blindly" hold only if it does.
    Firedoor itself turns synchronous_commit off for the claim alone, where forgetting is safe.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM pg_settings WHERE setting = 'off'"
            " AND name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
        )
        off = sorted(row[0] for row in cursor.fetchall())
    if not off:
        return ok("Commits are synced to disk.")
    judge = warn if off == ["synchronous_commit"] else fail
    return judge(f"{', '.join(off)} is off: a crash may forget what was committed.")


@check("database.migrations", needs="database.reachable", command="manage.py migrate")
def migrations(_sight: Sight) -> Answer:
    """Do tables and code belong together?

    Missing migrations fail whatever touches the missing part. Migrations that this code does not
    know were applied by a newer one: normal during a rolling deploy, otherwise this process is old.
    """
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        names = [f"{migration.app_label}.{migration.name}" for migration, _ in missing]
        return fail(f"{len(names)} migrations are not applied.", names[:5])
    known = set(executor.loader.disk_migrations)
    apps = {app for app, _ in known}
    strange = sorted(
        f"{app}.{name}"
        for app, name in executor.loader.applied_migrations
        if app in apps and (app, name) not in known
    )
    if strange:
        return warn("The database has migrations that this code does not know.", strange[:5])
    return ok("All migrations are applied.")


@check(
    "database.connections",
    needs="database.reachable",
    command="manage.py dbshell  # SELECT state, query FROM pg_stat_activity",
)
def connections(_sight: Sight) -> Answer | None:
    """Are there connections for all workers?

    Each worker process keeps two, one for its job and one for the heartbeat; beat keeps one, each
    web thread one. A process that gets none retries its message for a minute, then leaves it to
    upkeep. Raise max_connections, lower the concurrency in config/queues.py, or use a pooler.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int"
            " - current_setting('superuser_reserved_connections')::int,"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
        )
        room, used = cursor.fetchone()
    wanted = 1 + WEB_CONNECTIONS
    if not settings.FIREDOOR_INLINE:
        wanted += sum(2 * queue.concurrency for queue in QUEUES)
    sentence = f"{used} of {room} connections are used; one of everything may open {wanted}."
    if used >= CROWDED * room:
        return fail(sentence)
    return ok(sentence) if wanted <= room else warn(sentence)
