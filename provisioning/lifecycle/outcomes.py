"""What does it mean for the job, what Terraform did?

Two questions, as everywhere: may a later try succeed, and did the effect happen? "It did not" is
said only with proof: the tool was never started by this call, or it refused before its first
resource, its log is whole, and nothing that it started is alive. All else leaves the intent open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs.kinds import Terminal, Transient
from provisioning.terraform.apply import Applied
from provisioning.terraform.classify import Class
from provisioning.terraform.errors import TerraformError
from provisioning.terraform.stream import Entry, Progress

_SHOWN = 20  # resources named in a message


class ApplyInDoubt(Terminal):
    """Something of an apply happened, or may have. Its intent stays open: nothing runs again."""


class ApplyGoesOn(Transient):
    """The apply outlives our patience under its supervisor. The next attempt waits for its end."""


@contextmanager
def nothing_applied() -> Iterator[None]:
    """Translate what the package raises in place of running an apply.

    Where the folder was used before nothing is proven: who used it has to be found out.
    """
    try:
        yield
    except TerraformError as error:
        words = _coded(error.code, error.sentence)
        if not error.nothing_happened:
            raise ApplyInDoubt(words) from error
        raise _harmless(words, transient=error.transient) from error


def failure_of(applied: Applied) -> Transient | Terminal:
    """Return what an apply that did not succeed is raised as."""
    outcome = applied.outcome
    said = f" The tool said: {applied.message}" if applied.message else ""
    words = f"{outcome.sentence}{said}{ledger_in_words(applied.ledger)}"
    if outcome.code == "still_running":
        return ApplyGoesOn(_coded(outcome.code, words))
    if outcome.nothing_happened and not applied.left_behind:
        transient = outcome.kind is Class.TRANSIENT
        return _harmless(_coded(outcome.code, words), transient=transient)
    return ApplyInDoubt(_coded(outcome.code, f"{words}{_NEXT.get(outcome.kind, '')}"))


def ledger_in_words(ledger: tuple[Entry, ...]) -> str:
    """Say how far each resource got, for a person who has to compare it with the real thing."""
    parts = []
    for progress in (Progress.COMPLETED, Progress.ERRORED, Progress.STARTED):
        named = [entry.address for entry in ledger if entry.progress is progress]
        if named:
            more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
            parts.append(f"{progress}: {', '.join(named[:_SHOWN])}{more}")
    return f" Resources {'; '.join(parts)}." if parts else ""


# What an observation leads to, since its words are the kernel's and not Terraform's.
_NEXT = {
    Class.PARTIAL: (
        " Reconcile the step 'apply' as did_not_happen to let a retry make a new plan from the"
        " state as it is now and apply that; as happened if the rest was done by hand."
    )
}


def _harmless(words: str, *, transient: bool) -> Transient | Terminal:
    return Transient(words, happened=False) if transient else Terminal(words, happened=False)


def _coded(code: str, sentence: str) -> str:
    return f"{sentence} [{code}]"
