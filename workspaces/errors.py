"""The base of every typed error of the product, and the errors about records that are kept."""

from __future__ import annotations


class FiredoorError(Exception):
    """An expected refusal, told to people and to programs alike.

    `code` is stable and machine-readable; `sentence` says what was not done and what to do
    next, and is safe to show; `status` is the HTTP status that an API should answer with.
    A class sets `code` and `status`; an instance may narrow both.
    """

    code: str = "firedoor_error"
    status: int = 400
    sentence: str
    attempt: object = None
    """What was refused, for the audit trail: an `audit.Attempt`."""
    on_record: bool = False

    def __init__(self, sentence: str) -> None:
        # `args` stays as `Exception.__new__` set it (all that the subclass was given), or an
        # error with other arguments than a sentence could not be unpickled by another process.
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class NoSuchWorkspace(FiredoorError):
    """No workspace of that name or id is visible to the actor.

    Says the same whether it does not exist or is somebody else's: existence is never revealed.
    """

    code = "no_such_workspace"
    status = 404

    def __init__(self, named: str | int) -> None:
        super().__init__(
            f"Nothing was done: there is no workspace {named!r} that you may see. "
            "Check the name, or ask one of its admins to add you."
        )


class WorkspaceClosed(FiredoorError):
    """The workspace takes no new work."""

    code = "workspace_closed"
    status = 409

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"Nothing was done: the workspace {slug!r} is closed and takes no new work. "
            "Its records stay readable; use another workspace for new work."
        )


class RecordKept(FiredoorError):
    """Somebody tried to change or delete what is kept as it was written."""

    code = "record_kept"
    status = 409

    def __init__(self, what: str) -> None:
        super().__init__(f"Nothing was changed: {what}.")
