"""What HTTP itself can get wrong, before any service is asked."""

from __future__ import annotations

from typing import Any

from workspaces.errors import FiredoorError


class NotSignedIn(FiredoorError):
    """No bearer token came with the request."""

    code = "not_signed_in"
    status = 401

    def __init__(self) -> None:
        super().__init__("Nothing was done: send `Authorization: Bearer <token>`.")


class Forbidden(FiredoorError):
    """The address is not open to this caller."""

    code = "forbidden"
    status = 403

    def __init__(self) -> None:
        super().__init__("Nothing was done: this address is not open to you.")


class TokenInvalid(FiredoorError):
    """The token is malformed, unknown, expired, revoked, or its account is disabled."""

    code = "token_invalid"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: this token is malformed, unknown, expired or revoked. "
            "Ask an admin of the workspace for a new one."
        )


class TooManyFailures(FiredoorError):
    """Too many requests with a bad token came from this address."""

    code = "too_many_failures"
    status = 429
    retry = "same_key"

    def __init__(self, seconds: int) -> None:
        super().__init__("Nothing was done: too many requests with a bad token from this address.")
        self.retry_after = seconds


class Malformed(FiredoorError):
    """The body is no JSON that has one meaning."""

    code = "malformed"
    status = 400


class InputInvalid(FiredoorError):
    """A field of the body or of the query is missing, unknown or wrong; `errors` names each."""

    code = "input_invalid"
    status = 422

    def __init__(self, errors: Any) -> None:
        super().__init__("Nothing was done: some of the input is wrong; `errors` says what.")
        self.members = {"errors": errors}


class NotHttp(FiredoorError):
    """What came is no HTTP request, or one with two meanings."""

    code = "not_http"
    status = 400

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: this is no HTTP request with one meaning. Look at its first line, "
            "at what its headers are made of, and for one that came twice."
        )


class AddressTooLong(FiredoorError):
    """The address is longer than 4 kB."""

    code = "address_too_long"
    status = 414

    def __init__(self) -> None:
        super().__init__("Nothing was done: the address is longer than 4 kB.")


class ExpectationFailed(FiredoorError):
    """The `Expect` header wants something other than `100-continue`."""

    code = "expectation_failed"
    status = 417

    def __init__(self) -> None:
        super().__init__("Nothing was done: of `Expect` only `100-continue` is understood.")


class HeadersTooLarge(FiredoorError):
    """A header is longer than 8 kB, or there are more than a hundred."""

    code = "headers_too_large"
    status = 431

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: there are more than a hundred headers, or one is over 8 kB."
        )


class CursorInvalid(FiredoorError):
    """The cursor of a list was not made by this API."""

    code = "cursor_invalid"
    status = 400

    def __init__(self) -> None:
        super().__init__("Nothing was listed: the cursor is not one of ours. Begin without one.")


class NoSuchPage(FiredoorError):
    """There is nothing at this address."""

    code = "no_such_page"
    status = 404

    def __init__(self) -> None:
        super().__init__("Nothing was done: there is nothing at this address. See /api/docs/.")


class MethodRefused(FiredoorError):
    """The address does not take this method."""

    code = "method_not_allowed"
    status = 405


class NotAcceptable(FiredoorError):
    """The `Accept` header admits no JSON."""

    code = "not_acceptable"
    status = 406


class LengthRequired(FiredoorError):
    """The body came in chunks, without its length, and so cannot be read here."""

    code = "length_required"
    status = 411

    def __init__(self) -> None:
        super().__init__("Nothing was done: send the body with a Content-Length, not in chunks.")


class BodyTooLarge(FiredoorError):
    """The body is larger than any request may be."""

    code = "body_too_large"
    status = 413

    def __init__(self) -> None:
        super().__init__("Nothing was done: the body is too large.")


class MediaTypeRefused(FiredoorError):
    """The body is not `application/json`."""

    code = "unsupported_media_type"
    status = 415


class IdempotencyKeyMissing(FiredoorError):
    """This deed is done under an `Idempotency-Key` only: done twice, it would be another one."""

    code = "idempotency_key_missing"
    status = 400
    retry = "new_key"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: send this with an Idempotency-Key of your own, so that a lost "
            "answer can be asked for again without doing it twice."
        )


class IdempotencyKeyInvalid(FiredoorError):
    """The `Idempotency-Key` header is no key."""

    code = "idempotency_key_invalid"
    status = 400
    retry = "new_key"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: an Idempotency-Key is one value of 8 to 255 characters from "
            "letters, digits and . _ : ~ + / = -, with or without quotes."
        )


class IdempotencyKeyReused(FiredoorError):
    """The key belongs to another request: another method, address or body."""

    code = "idempotency_key_reused"
    status = 422
    retry = "new_key"

    def __init__(self, method: str, path: str, created_at: str) -> None:
        super().__init__(
            "Nothing was done: you used this Idempotency-Key for another request. "
            "A new intent needs a new key."
        )
        self.members = {"original": {"method": method, "path": path, "created_at": created_at}}


class InProgress(FiredoorError):
    """A request with the same key is being answered at this moment."""

    code = "idempotency_in_progress"
    status = 409
    retry = "same_key"
    retry_after = 2

    def __init__(self) -> None:
        super().__init__(
            "Nothing was done: a request with this Idempotency-Key is still being answered. "
            "Send it again with the same key."
        )


class OutcomeUnknown(FiredoorError):
    """The database went away at the very end: it may have been done, and may not."""

    code = "outcome_unknown"
    status = 503
    retry_after = 2

    def __init__(self, *, repeatable: bool) -> None:
        super().__init__(
            "It is not known whether this was done: the database went away at the very end. "
            + (
                "Send it again with the same Idempotency-Key: that is safe."
                if repeatable
                else "Look first; with an Idempotency-Key you could simply send it again."
            )
        )
        self.retry = "same_key" if repeatable else "none"


class Unavailable(FiredoorError):
    """The database is out of reach, or somebody holds a lock for long."""

    code = "unavailable"
    status = 503
    retry = "same_key"
    retry_after = 2

    def __init__(self) -> None:
        super().__init__("Nothing was done: the database is busy or out of reach. Try again.")


class Internal(FiredoorError):
    """A fault of ours. It is in the log under the request id."""

    code = "internal"
    status = 500
    retry = "same_key"

    def __init__(self) -> None:
        super().__init__(
            "This failed by a fault of ours, and nothing of it was kept. "
            "Tell us the request id; a repetition with the same key is safe."
        )
