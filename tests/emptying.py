"""How the database is emptied after a test with real transactions: only the tables that hold rows.

Django truncates every table and writes all permissions and content types anew, which takes longer
than most tests. What ``migrate`` wrote stays; sequences go on, so no test may count on ids.
"""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})


def empty() -> None:
    """Delete all rows but those that ``migrate`` wrote. Foreign keys are checked at the end."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA defer_foreign_keys = ON")
        for table in connection.introspection.django_table_names(only_existing=True):
            if table not in KEPT:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608


@pytest.fixture(scope="session", autouse=True)
def _empty_only_what_is_full() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: empty())
    yield
    patch.undo()
