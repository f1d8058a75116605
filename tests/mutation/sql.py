"""Breaks one SQL statement in every small way that still reads as SQL.

Works on the text that ``jobs.moves`` sends, marks and parameters included. What a mutant is:
a condition left out or turned round, a word of a closed set exchanged for another, a column not
written, a fallback or a choice taken away, a guard or a lock dropped. It knows no grammar beyond
brackets and a few keywords; what PostgreSQL refuses to parse is counted apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"'[^']*'|%\(\w+\)s|@\w+(?:\(\w+\))?|[A-Za-z_][\w.]*|\d+|<>|<=|>=|::|\|\||[^\s\w]"
)
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# Each word and one of its set that the table's constraints also admit in the same place.
OTHER_WORD = {
    "queued": "running",
    "running": "queued",
    "dead": "cancelled",
    "cancelled": "dead",
    "succeeded": "dead",
    "uncertain": "terminal",
    "started": "not_done",
    "done": "started",
    "not_done": "done",
    "happened": "did_not_happen",
    "unstartable": "retry",
    "throttled": "retry",
    "scheduled": "retry",
    "off": "on",
    "": "other",
}
END_OF_CONDITION = {"RETURNING", "ORDER", "LIMIT", "FOR", "ON", "DO", "THEN", "WHERE", "CROSS"}
DROPPED = (
    r" FOR UPDATE SKIP LOCKED",
    r" SKIP LOCKED",
    r"\s+FOR SHARE(?: OF w)?",
    r"\s+ORDER BY \w+",
    r" DISTINCT",
    r"\s+ON CONFLICT \([^)]*\)(?: WHERE [\w ]+)? DO NOTHING",
)


@dataclass(frozen=True)
class Mutant:
    """One broken form of a statement. ``title`` names it in reports."""

    title: str
    sql: str


@dataclass(frozen=True)
class Edit:
    """What is done to a text: each span replaced."""

    what: str
    spans: tuple[tuple[int, int, str], ...]

    def applied(self, sql: str) -> str:
        for start, end, new in sorted(self.spans, reverse=True):
            sql = sql[:start] + new + sql[end:]
        return sql


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int
    depth: int

    def is_word(self, *words: str) -> bool:
        return self.text in words


def mutants(sql: str) -> list[Mutant]:
    """Every mutant of a statement; those that do the same thing in two places are numbered."""
    seen: Counter[str] = Counter()
    found: dict[str, Mutant] = {}
    for edit in Statement(sql).edits():
        seen[edit.what] += 1
        number = f" ({seen[edit.what]})" if seen[edit.what] > 1 else ""
        mutant = Mutant(edit.what + number, edit.applied(sql))
        if mutant.sql != sql:
            found.setdefault(mutant.sql, mutant)
    return list(found.values())


class Statement:
    """A statement cut into tokens, each with the depth of brackets it stands in."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens: list[Token] = []
        depth = 0
        for match in TOKEN.finditer(sql):
            depth -= match[0] == ")"
            self.tokens.append(Token(match[0], match.start(), match.end(), depth))
            depth += match[0] == "("

    def edits(self) -> Iterator[Edit]:
        for start, end in self._conditions():
            yield from self._less_strict(start, end)
            yield from self._turned_round(start, end)
        yield from self._words()
        yield from self._unset()
        yield from self._unwritten()
        yield from self._chosen()
        yield from self._unguarded()

    # --- conditions ------------------------------------------------------------------------------

    def _conditions(self) -> Iterator[tuple[int, int]]:
        """The first and last-but-one token of everything that is true or false."""
        for at, token in enumerate(self.tokens):
            joins = token.is_word("ON") and not self._next_is(at, "CONFLICT")
            if token.is_word("WHERE", "WHEN") or joins:
                yield at + 1, self._until(at + 1, END_OF_CONDITION)

    def _until(self, at: int, words: set[str]) -> int:
        """Where the part that begins ``at`` ends: at a word of its own depth, or its bracket."""
        depth = self.tokens[at].depth
        for index in range(at, len(self.tokens)):
            token = self.tokens[index]
            if token.depth < depth or (token.depth == depth and token.text in words):
                return index
        return len(self.tokens)

    def _next_is(self, at: int, *words: str) -> bool:
        return at + 1 < len(self.tokens) and self.tokens[at + 1].text in words

    def _split(self, start: int, end: int, word: str) -> list[tuple[int, int]]:
        depth = self.tokens[start].depth
        cuts = [
            index
            for index in range(start, end)
            if self.tokens[index].text == word and self.tokens[index].depth == depth
        ]
        return list(zip([start, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))

    def _less_strict(self, start: int, end: int) -> Iterator[Edit]:
        """Leave out each condition in turn, and those inside its brackets."""
        for either in (choices := self._split(start, end, "OR")):
            if len(choices) > 1:
                yield self._replaced(*either, "false", f"no `{self._short(*either)}`")
            for part in (parts := self._split(*either, "AND")):
                text = self._text(*part)
                if text != "true" and (len(parts) > 1 or len(choices) == 1):
                    yield self._replaced(*part, "true", f"any `{self._short(*part)}`")
                if len(parts) == len(choices) == 1 and self._previous_is(start, "WHEN"):
                    yield self._replaced(*part, "false", f"never `{self._short(*part)}`")
                first = self.tokens[part[0]].text
                if first == "(" and self.tokens[part[1] - 1].text == ")":
                    yield from self._less_strict(part[0] + 1, part[1] - 1)

    def _previous_is(self, at: int, word: str) -> bool:
        return at > 0 and self.tokens[at - 1].text == word

    def _turned_round(self, start: int, end: int) -> Iterator[Edit]:
        for index in range(start, end):
            token = self.tokens[index]
            if token.text in OPPOSITE and not self._in_inner_condition(start, index):
                opposite = OPPOSITE[token.text]
                around = self._text(max(start, index - 1), min(end, index + 2))
                yield self._replaced(index, index + 1, opposite, f"`{around}` is {opposite}")
            if token.is_word("IS") and not self._in_inner_condition(start, index):
                around = self._text(index - 1, min(end, index + 3))
                if self._next_is(index, "NOT"):
                    yield self._replaced(index + 1, index + 2, "", f"`{around}` is NULL")
                else:
                    yield self._replaced(index, index + 1, "IS NOT", f"`{around}` is not")
            if token.is_word("NOT") and self._next_is(index, "EXISTS"):
                yield self._replaced(index, index + 1, "", "NOT EXISTS is EXISTS")

    def _in_inner_condition(self, start: int, index: int) -> bool:
        """Whether a nested SELECT's own condition, which is visited by itself, holds the token."""
        inner = [at for at, _ in self._conditions() if start < at <= index]
        return any(index < self._until(at, END_OF_CONDITION) for at in inner)

    # --- values ----------------------------------------------------------------------------------

    def _words(self) -> Iterator[Edit]:
        for index, token in enumerate(self.tokens):
            word = token.text[1:-1]
            if token.text.startswith("'") and word in OTHER_WORD:
                other = OTHER_WORD[word]
                around = self._text(max(0, index - 2), index + 1)
                yield self._replaced(index, index + 1, f"'{other}'", f"`{around}` is '{other}'")

    def _unset(self) -> Iterator[Edit]:
        """Leave each assignment of an UPDATE out."""
        for at, token in enumerate(self.tokens):
            if not token.is_word("SET"):
                continue
            items = self._split(at + 1, self._until(at + 1, {"WHERE", "RETURNING", "FROM"}), ",")
            for start, end in items:
                name = self.tokens[start].text
                if len(items) == 1:
                    yield self._replaced(start + 2, end, name, f"SET {name} left out")
                else:
                    yield self._without(start, end, items[0][0] == start, f"SET {name} left out")

    def _unwritten(self) -> Iterator[Edit]:
        """Leave each column of an INSERT … SELECT to its default."""
        for at, token in enumerate(self.tokens):
            if not token.is_word("INSERT"):
                continue
            closing = self._until(at + 4, set())
            columns = self._split(at + 4, closing, ",")
            chosen = self._split(closing + 2, self._until(closing + 2, {"FROM"}), ",")
            for column, value in zip(columns, chosen, strict=True):
                name = self.tokens[column[0]].text
                first = column[0] == columns[0][0]
                one = self._without(*column, first, f"{name} not written")
                two = self._without(*value, first, "")
                yield Edit(one.what, one.spans + two.spans)

    def _chosen(self) -> Iterator[Edit]:
        """Take one side of a choice or of an arithmetic for the whole."""
        for at, token in enumerate(self.tokens):
            if token.text in {"COALESCE", "greatest", "@greatest"} and self._next_is(at, "("):
                closing = self._until(at + 2, set())
                for start, end in self._split(at + 2, closing, ","):
                    whole, one = self._short(at, closing + 1), self._short(start, end)
                    text = self._text(start, end)
                    yield self._replaced(at, closing + 1, text, f"`{whole}` is `{one}`")
            if token.text in {"+", "-"}:
                sign = "-" if token.text == "+" else "+"
                around = self._text(at - 1, at + 2)
                yield self._replaced(at, at + 1, sign, f"`{around}` is {sign}")

    # --- guards ----------------------------------------------------------------------------------

    def _unguarded(self) -> Iterator[Edit]:
        """Drop locks, orders and bounds; let a CTE's child write whether the parent matched."""
        for pattern in DROPPED:
            for match in re.finditer(pattern, self.sql):
                text = " ".join(match[0].split())
                yield Edit(f"no {text}", ((*match.span(), ""),))
        for at, token in enumerate(self.tokens):
            if token.is_word("LIMIT"):
                end = self._until(at + 1, END_OF_CONDITION)
                yield self._replaced(at + 1, end, "ALL", f"no {self._short(at, end)}")
            if token.is_word("FROM") and self._next_is(at, "j"):
                free = "(SELECT * FROM jobs_job WHERE id = @uuid(id)) j"
                yield self._replaced(at + 1, at + 2, free, "FROM j without its guard")

    # --- texts -----------------------------------------------------------------------------------

    def _text(self, start: int, end: int) -> str:
        return " ".join(self.sql[self.tokens[start].start : self.tokens[end - 1].end].split())

    def _short(self, start: int, end: int) -> str:
        """The text as a title shows it; a long one loses its middle."""
        text = self._text(start, end)
        return text if len(text) <= 60 else f"{text[:40]} … {text[-17:]}"

    def _replaced(self, start: int, end: int, new: str, what: str) -> Edit:
        return Edit(what, ((self.tokens[start].start, self.tokens[end - 1].end, new),))

    def _without(self, start: int, end: int, first: bool, what: str) -> Edit:
        """An item of a list left out, with the comma before it or, of the first, after it."""
        if first:
            return Edit(what, ((self.tokens[start].start, self.tokens[end].end, ""),))
        return Edit(what, ((self.tokens[start - 1].start, self.tokens[end - 1].end, ""),))
