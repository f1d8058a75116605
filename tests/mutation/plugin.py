"""Pytest plugin that breaks the kernel in one place at a time, and runs the tests.

First every test runs once on the whole code, noting which functions it called and which
statements it sent. Then for each mutant only the tests that meet it run, until one fails: first
those that killed others, then the fastest. All in one process, with one database: nothing is
collected, migrated, imported or connected twice. A mutant is killed by a test that fails
with it twice, and passes on the whole code right after: neither a test that was unlucky nor what
the mutant before left behind counts.

The exit code says whether docs/mutation.md explains every survivor.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.db import ProgrammingError

from tests.mutation.python import choose, install, python_mutants
from tests.mutation.sql import mutants

PAGE = Path(__file__).parents[2] / "docs/mutation.md"
MOVES = f"{os.sep}jobs{os.sep}moves{os.sep}"
KILLERS = 20
NO_TEST = -1


class Fate(Enum):
    """What became of a mutant."""

    SURVIVED = "survived"
    KILLED = "killed"
    INVALID = "invalid"  # PostgreSQL does not take it for a statement
    UNSEEN = "unseen"  # no test calls it


@dataclass(frozen=True)
class Mutation:
    """One break: a function exchanged for its mutant, or texts for theirs."""

    title: str
    tests: frozenset[int]
    function: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)


WHOLE = Mutation("the whole code", frozenset())


@dataclass
class Notes:
    """What the run on the whole code told: who sends what, and how long each test took."""

    senders: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    meets: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    failed: bool = False
    why: str = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutate", default="", help="only mutants whose title this expression finds")
    parser.addoption("--part", default="1/1", help="2/5: of every five mutants the second")
    parser.addoption("--at-most", type=int, help="tests a mutant, for a first look")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(BREAKER, "breaker")


class Breaker:
    """Replaces pytest's own loop over the tests."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.broken: Mapping[str, str] = {}
        self.at = NO_TEST
        self.killers: list[int] = []
        self.invalid = self.quiet = False
        install(self.met)

    def met(self, function: str) -> None:
        self.notes.meets[function].add(self.at)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.notes.failed = True
            self.notes.why = f"{report.nodeid}\n{report.longreprtext}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str] | None:
        """A letter for each test of each mutant would say nothing."""
        return ("", "", "") if self.quiet else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._listen()
        self._run(session, list(range(len(session.items))))
        self._must_pass("from the start")
        self._break(WHOLE)
        wanted = re.compile(session.config.getoption("--mutate"))
        part, parts = map(int, session.config.getoption("--part").split("/"))
        found = [each for each in mutations(self.notes) if wanted.search(each.title)]
        found = found[part - 1 :: parts]
        page = PAGE.read_text()  # what is known to survive costs every test that meets it: last
        found.sort(key=lambda each: each.title in page)
        self.quiet = True
        session.testsfailed = report([(each.title, self._fate(session, each)) for each in found])
        return True

    def _must_pass(self, when: str) -> None:
        if self.notes.failed:
            raise pytest.UsageError(f"A test fails on the whole code, {when}: {self.notes.why}")

    def _run(self, session: pytest.Session, order: list[int]) -> None:
        """These tests, until one fails. Session fixtures, the database above all, stay up."""
        items = [session.items[index] for index in order]
        self.notes.failed = False
        place: Any = items[0].parent  # never the test itself, which would count as set up already
        session._setupstate.teardown_exact(place)
        for index, item, following in zip(order, items, [*items[1:], place], strict=True):
            self.at, begun = index, time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.notes.seconds.setdefault(index, time.monotonic() - begun)
            if self.notes.failed:
                return
        self.at = NO_TEST

    def _listen(self) -> None:
        """Note every statement that ``jobs.moves`` sends; send the broken one instead."""
        from jobs import statements  # the settings are read by now

        names = vars(statements)
        real: Callable[..., Any] = names["execute"]

        def execute(sql: str, params: Mapping[str, Any]) -> Any:
            if (sender := _sender(sys._getframe())) is not None:
                self.notes.senders[sql].add(sender)
                self.met(sql)
            try:
                return real(self.broken.get(sql, sql), params)
            except ProgrammingError as error:
                self.invalid |= sql in self.broken and _is_no_statement(error)
                raise

        names["execute"] = execute

    # --- one mutant ------------------------------------------------------------------------------

    def _fate(self, session: pytest.Session, mutation: Mutation) -> Fate:
        order = self._order(mutation)[: session.config.getoption("--at-most")]
        fate = self._tried(session, mutation, order) if order else Fate.UNSEEN
        _say(f"{fate.value:9} {mutation.title}")
        return fate

    def _tried(self, session: pytest.Session, mutation: Mutation, order: list[int]) -> Fate:
        """A test kills a mutant that fails it twice, and without which it passes."""
        self.invalid = False
        while order:
            self._break(mutation)
            self._run(session, order)
            if not self.notes.failed:
                break
            killer = self.at
            order = order[order.index(killer) + 1 :]
            self._run(session, [killer])
            if self.notes.failed:
                self._break(WHOLE)
                self._run(session, [killer])
                self._must_pass(f"after {mutation.title}")
                self.killers.append(killer)
                return Fate.INVALID if self.invalid else Fate.KILLED
        self._break(WHOLE)
        return Fate.SURVIVED

    def _break(self, mutation: Mutation) -> None:
        self.broken = mutation.texts
        choose(mutation.function)

    def _order(self, mutation: Mutation) -> list[int]:
        """The tests that meet the mutant: those that killed others, the last ones first."""
        met = mutation.tests - {NO_TEST}
        killers = [index for index in dict.fromkeys(reversed(self.killers)) if index in met]
        others = met.difference(killers[:KILLERS])
        return killers[:KILLERS] + sorted(others, key=lambda index: self.notes.seconds[index])


BREAKER = Breaker()  # at once: what it breaks must not be imported yet


def _say(line: str) -> None:
    os.write(2, f"{line}\n".encode())


def _sender(frame: FrameType | None) -> str | None:
    """The function of ``jobs.moves`` on whose behalf a statement is sent."""
    while frame is not None:
        if MOVES in frame.f_code.co_filename:
            return re.sub(r"^x_|__mutmut_\w+$", "", frame.f_code.co_name)
        frame = frame.f_back
    return None


def _is_no_statement(error: ProgrammingError) -> bool:
    """Whether the mutant does not parse. A missing table is something that a test makes."""
    sqlstate = getattr(error.__cause__, "sqlstate", "")
    return sqlstate.startswith("42") and sqlstate != "42P01"


def mutations(notes: Notes) -> Iterator[Mutation]:
    """Every mutant of what was imported and sent."""
    for name, function, title in python_mutants():
        yield Mutation(title, frozenset(notes.meets[function]), function=name)
    # Forms of one statement that differ elsewhere are broken together.
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for sql in sorted(notes.senders):
        sender = "/".join(sorted(notes.senders[sql]))
        for mutant in mutants(sql):
            found[f"{sender}: {mutant.title}"][sql] = mutant.sql
    for title, texts in found.items():
        tests = frozenset(index for sql in texts for index in notes.meets[sql])
        yield Mutation(title, tests, texts=texts)


def report(fates: Sequence[tuple[str, Fate]]) -> int:
    """Print how many were killed, and every survivor; how many of them no page explains."""
    counts = Counter(fate for _, fate in fates)
    survivors = [each for each in fates if each[1] in {Fate.SURVIVED, Fate.UNSEEN}]
    page = PAGE.read_text()
    unexplained = [title for title, _ in survivors if title not in page]
    _say("\n" + ", ".join(f"{counts[fate]} {fate.value}" for fate in Fate))
    for title, fate in survivors:
        _say(f"{fate.value}{', unexplained' * (title in unexplained)}: {title}")
    return len(unexplained)
