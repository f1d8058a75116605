"""What the mutation tests break in a statement: every small thing, each alone, still SQL."""

from __future__ import annotations

import pytest

from tests.mutation.sql import mutants

# One statement after another with all that the moves are made of.
UPDATE = "UPDATE t SET a = 'queued', b = b + 1 WHERE id = %(id)s AND (c IS NULL OR d <= @now)"
LOCKED = "UPDATE t SET a = 1 WHERE id = ANY(ARRAY(SELECT id FROM t FOR UPDATE SKIP LOCKED))"
INSERT = "INSERT INTO t (a, b) SELECT 1, COALESCE(x, 2) FROM j WHERE true"
CHOICE = "UPDATE t SET a = CASE WHEN b = 'dead' THEN 1 ELSE 2 END WHERE NOT EXISTS (SELECT 1)"


@pytest.mark.parametrize(
    ("sql", "title", "broken"),
    [
        (UPDATE, "any `id = %(id)s`", UPDATE.replace("id = %(id)s", "true")),
        (UPDATE, "no `d <= @now`", UPDATE.replace("d <= @now", "false")),
        (UPDATE, "`d <= @now` is >", UPDATE.replace("<=", ">")),
        (UPDATE, "`c IS NULL OR` is not", UPDATE.replace("IS NULL", "IS NOT NULL")),
        (UPDATE, "`a = 'queued'` is 'running'", UPDATE.replace("queued", "running")),
        (UPDATE, "SET a left out", UPDATE.replace("a = 'queued', ", " ")),
        (UPDATE, "SET b left out", UPDATE.replace(", b = b + 1", "")),
        (UPDATE, "`b + 1` is -", UPDATE.replace("+", "-")),
        (LOCKED, "no SKIP LOCKED", LOCKED.replace(" SKIP LOCKED", "")),
        (LOCKED, "no FOR UPDATE SKIP LOCKED", LOCKED.replace(" FOR UPDATE SKIP LOCKED", "")),
        (LOCKED, "SET a left out", LOCKED.replace("a = 1", "a = a")),
        (INSERT, "a not written", "INSERT INTO t ( b) SELECT  COALESCE(x, 2) FROM j WHERE true"),
        (INSERT, "b not written", "INSERT INTO t (a) SELECT 1 FROM j WHERE true"),
        (INSERT, "`COALESCE(x, 2)` is `2`", INSERT.replace("COALESCE(x, 2)", "2")),
        (
            INSERT,
            "FROM j without its guard",
            INSERT.replace("FROM j", "FROM (SELECT * FROM jobs_job WHERE id = @uuid(id)) j"),
        ),
        (CHOICE, "never `b = 'dead'`", CHOICE.replace("b = 'dead'", "false")),
        (CHOICE, "NOT EXISTS is EXISTS", CHOICE.replace("NOT EXISTS", " EXISTS")),
    ],
)
def test_a_statement_is_broken_in_this_way(sql: str, title: str, broken: str) -> None:
    found = {mutant.title: mutant.sql for mutant in mutants(sql)}
    assert found[title].split() == broken.split()


@pytest.mark.parametrize("sql", [UPDATE, LOCKED, INSERT, CHOICE])
def test_no_two_mutants_are_the_same_and_none_is_the_statement(sql: str) -> None:
    found = mutants(sql)
    assert len({mutant.sql for mutant in found} - {sql}) == len(found)
    assert len({mutant.title for mutant in found}) == len(found)


def test_what_is_broken_in_two_places_is_numbered() -> None:
    sql = "UPDATE t SET a = 1 WHERE b = 2 AND EXISTS (SELECT 1 FROM s WHERE b = 2)"
    titles = [mutant.title for mutant in mutants(sql) if mutant.title.startswith("any `b = 2`")]
    assert titles == ["any `b = 2`", "any `b = 2` (2)"]
