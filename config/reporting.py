"""Unexpected errors go to Sentry, when SENTRY_DSN names one, without anybody's secrets.

Nothing personal is attached, no local variables and no request bodies; what remains passes the
same scrubbing as the logs.
"""

from typing import cast

import sentry_sdk
from sentry_sdk.types import Event, Hint

from config.logs import scrubbed


def start(dsn: str | None, environment: str) -> None:
    """Report this process' unexpected errors to ``dsn``; does nothing without one."""
    if dsn is None:
        return
    sentry_sdk.init(
        dsn=dsn,
        environment=environment,
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        before_send=_without_secrets,
        before_breadcrumb=lambda crumb, _hint: scrubbed(crumb),
    )


def _without_secrets(event: Event, _hint: Hint) -> Event:
    return cast(Event, scrubbed(event))
