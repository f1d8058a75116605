"""How the database is emptied after a test with real transactions: only the tables that hold rows.

Django truncates every table and writes all permissions and content types anew, which takes longer
than most tests. What ``migrate`` wrote stays; sequences go on, so no test may count on ids.
"""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})
AUDIT = "workspaces_auditevent"
"""Its triggers refuse a deletion: as the owner of the tables, the tests lay them aside for it."""


def empty() -> None:
    """Delete all rows but those that ``migrate`` wrote. Foreign keys are checked at the end."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA defer_foreign_keys = ON")
        _empty_audit(cursor)
        for table in connection.introspection.django_table_names(only_existing=True):
            if table not in KEPT and table != AUDIT:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608


def _empty_audit(cursor: Any) -> None:
    cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {AUDIT})")  # noqa: S608
    if not cursor.fetchone()[0]:
        return
    if connection.vendor == "postgresql":
        cursor.execute(f"ALTER TABLE {AUDIT} DISABLE TRIGGER USER")
        cursor.execute(f"DELETE FROM {AUDIT}")  # noqa: S608
        cursor.execute(f"ALTER TABLE {AUDIT} ENABLE TRIGGER USER")
        return
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    triggers = cursor.fetchall()
    for name, _sql in triggers:
        cursor.execute(f"DROP TRIGGER {name}")
    cursor.execute(f"DELETE FROM {AUDIT}")  # noqa: S608
    for _name, sql in triggers:
        cursor.execute(sql)


@pytest.fixture(scope="session", autouse=True)
def _empty_only_what_is_full() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: empty())
    yield
    patch.undo()
