"""The test run stands on real servers."""

import os

import pytest
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_postgresql() -> None:
    assert connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        assert "PostgreSQL" in cursor.fetchone()[0]
