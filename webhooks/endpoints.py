"""How endpoints are made, changed, enabled, disabled, and given new secrets.

Each is authorised, locked, decided, written and audited in one transaction, whichever door it
comes through. A secret is told once, by what makes it, and kept sealed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from jobs import gates
from webhooks import endings
from webhooks.catalogue import SUBSCRIBABLE
from webhooks.egress import UrlRefused, target_of, without_query
from webhooks.errors import (
    EnabledTooSoon,
    EndpointDisabled,
    EndpointInvalid,
    EndpointNotFound,
    SecretsFull,
    UrlInvalid,
)
from webhooks.health import FIRST_PROBE
from webhooks.models import Endpoint, EndpointSecret
from webhooks.outcome import LONGEST_DELAY
from webhooks.requests import HeadersRefused, check_headers, live_secrets
from webhooks.sealing import seal, seal_headers
from webhooks.signing import new_secret
from webhooks.states import EndpointState, Reason
from webhooks.wanted import forget
from workspaces import audit
from workspaces.actors import Actor, as_actor
from workspaces.errors import WorkspaceClosed
from workspaces.models import Workspace
from workspaces.permissions import allowed, require

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SECRETS_LIMIT = 5
DEFAULT_GRACE = 86_400
LONGEST_GRACE = 604_800
DISABLED_FOR = timedelta(seconds=60)
MOST_DELAYS = 2


def create(
    workspace: Workspace,
    *,
    url: str,
    events: Sequence[str],
    actor: Actor | User,
    description: str = "",
    headers: Mapping[str, str] | None = None,
    delays: Sequence[float] | None = None,
    request_id: str = "",
) -> tuple[Endpoint, str]:
    """A new endpoint and its signing secret, which is told this once.

    Raises, having written nothing: NotAllowed, WorkspaceClosed, UrlInvalid, EndpointInvalid.
    """
    who = as_actor(actor)
    said = {"url": url, "events": list(events), "description": description, "delays": delays}
    attempt = audit.Attempt(
        who, "webhook.create", workspace.pk, "workspace", workspace.pk, request_id=request_id
    )
    with audit.attempted(attempt), transaction.atomic():
        require(who, "webhooks.manage", workspace)
        _refuse_closed(workspace)
        fields = _checked({**said, "headers": dict(headers or {})})
        endpoint = Endpoint.objects.create(workspace=workspace, actor=who.id, **fields)
        secret = _add_secret(endpoint)
        _record(who, "webhook.create", endpoint, request_id, after=_shown(endpoint))
        transaction.on_commit(forget)
    endpoint.refresh_from_db()
    return endpoint, secret


def update(
    pk: uuid.UUID | str, *, actor: Actor | User, request_id: str = "", **changes: Any
) -> Endpoint:
    """Change ``url events description headers delays``; waiting deliveries go to the new URL.

    Raises, having changed nothing: EndpointNotFound, NotAllowed, UrlInvalid, EndpointInvalid.
    """

    def work(endpoint: Endpoint) -> None:
        Endpoint.objects.filter(pk=endpoint.pk).update(**_checked(changes))

    return _deed("update", pk, actor, request_id, work)


def disable(pk: uuid.UUID | str, *, actor: Actor | User, request_id: str = "") -> Endpoint:
    """Send nothing more to it; what waits ends as cancelled. Disabled already: nothing changes."""

    def work(endpoint: Endpoint) -> None:
        if endpoint.state != EndpointState.DISABLED:
            endings.disable(endpoint, Reason.MANUAL)

    return _deed("disable", pk, actor, request_id, work)


def enable(pk: uuid.UUID | str, *, actor: Actor | User, request_id: str = "") -> Endpoint:
    """Let it try again: one message at a time until one is taken. Enabled already: no change.

    Raises, having changed nothing: EndpointNotFound, NotAllowed, EnabledTooSoon, WorkspaceClosed.
    """

    def work(endpoint: Endpoint) -> None:
        if endpoint.state != EndpointState.DISABLED:
            return
        _refuse_closed(endpoint.workspace)
        fresh = Q(state_since__gt=Now() - DISABLED_FOR)
        if Endpoint.objects.filter(fresh, pk=endpoint.pk).exists():
            raise EnabledTooSoon(
                "Nothing was changed: it was disabled less than a minute ago. Try again then."
            )
        Endpoint.objects.filter(pk=endpoint.pk).update(
            state=EndpointState.FAILING.value, reason="", state_since=Now()
        )
        gates.close(
            endpoint.workspace_id,
            endpoint.gate,
            reason="It was enabled and has taken nothing yet.",
            probe_every=FIRST_PROBE,
        )

    return _deed("enable", pk, actor, request_id, work)


def rotate_secret(
    pk: uuid.UUID | str,
    *,
    actor: Actor | User,
    grace_seconds: int = DEFAULT_GRACE,
    request_id: str = "",
) -> tuple[Endpoint, str]:
    """A new secret, told this once. The one before signs too for ``grace_seconds``; 0 ends it.

    Raises, having changed nothing: EndpointNotFound, NotAllowed, SecretsFull.
    """
    made: list[str] = []

    def work(endpoint: Endpoint) -> None:
        if grace_seconds and len(live_secrets(endpoint)) >= SECRETS_LIMIT:
            raise SecretsFull(
                f"Nothing was changed: {SECRETS_LIMIT} secrets sign already. "
                "Wait until one expires, or rotate without grace, which ends all earlier ones."
            )
        if grace_seconds:
            newest = endpoint.secrets.filter(expires_at=None)
            newest.update(expires_at=Now() + timedelta(seconds=grace_seconds))
        else:
            endpoint.secrets.filter(Q(expires_at=None) | Q(expires_at__gt=Now())).update(
                expires_at=Now()
            )
        made.append(_add_secret(endpoint))

    endpoint = _deed("rotate_secret", pk, actor, request_id, work)
    return endpoint, made[0]


def visible_endpoint(pk: uuid.UUID | str, actor: Actor) -> Endpoint:
    """The endpoint, if the actor may see it. Raises EndpointNotFound, the same for a foreign."""
    try:
        found = Endpoint.objects.select_related("workspace").get(pk=uuid.UUID(str(pk)))
    except (ValueError, Endpoint.DoesNotExist):
        found = None
    if found is None or not allowed(actor, "webhooks.view", found.workspace_id):
        raise no_such_endpoint(pk)
    return found


def no_such_endpoint(pk: object) -> EndpointNotFound:
    return EndpointNotFound(
        f"Nothing was done: there is no endpoint {str(pk)[:60]!r} that you may see. Check the id."
    )


def refuse_disabled(endpoint: Endpoint) -> None:
    """Raise EndpointDisabled if it is."""
    if endpoint.state == EndpointState.DISABLED:
        raise EndpointDisabled(
            f"Nothing was sent: the endpoint is disabled ({endpoint.reason}). Enable it first."
        )


def _deed(
    name: str,
    pk: uuid.UUID | str,
    actor: Actor | User,
    request_id: str,
    work: Callable[[Endpoint], None],
) -> Endpoint:
    """Change one endpoint: authorised, locked, audited, in one transaction."""
    who = as_actor(actor)
    seen = visible_endpoint(pk, who)
    action = f"webhook.{name}"
    attempt = audit.Attempt(
        who, action, seen.workspace_id, "webhook_endpoint", seen.pk, request_id=request_id
    )
    with audit.attempted(attempt), transaction.atomic():
        require(who, "webhooks.manage", seen.workspace_id)
        endpoint = Endpoint.objects.select_for_update(no_key=True).get(pk=seen.pk)
        before = _shown(endpoint)
        work(endpoint)
        endpoint.refresh_from_db()
        _record(who, action, endpoint, request_id, before=before, after=_shown(endpoint))
        transaction.on_commit(forget)
    return endpoint


def _record(actor: Actor, action: str, endpoint: Endpoint, request_id: str, **states: Any) -> None:
    audit.record(
        actor=actor,
        action=action,
        workspace=endpoint.workspace_id,
        object_type="webhook_endpoint",
        object_id=endpoint.pk,
        request_id=request_id,
        **states,
    )


def _shown(endpoint: Endpoint) -> dict[str, Any]:
    """What the audit trail keeps: no header values, no query of the URL."""
    return {
        "url": without_query(endpoint.url),
        "events": endpoint.events,
        "description": endpoint.description,
        "state": endpoint.state,
        "reason": endpoint.reason,
        "delays": endpoint.delays,
        "secrets": [one.hint for one in live_secrets(endpoint)],
    }


def _add_secret(endpoint: Endpoint) -> str:
    secret = new_secret()
    EndpointSecret.objects.create(endpoint=endpoint, sealed=seal(secret), hint=secret[-4:])
    return secret


def _refuse_closed(workspace: Workspace) -> None:
    rows = Workspace.objects.select_for_update(no_key=True).filter(pk=workspace.pk)
    if not rows.filter(closed_at=None).exists():
        raise WorkspaceClosed(workspace.slug)


def _checked(said: dict[str, Any]) -> dict[str, Any]:
    """The columns for what was said. Raises UrlInvalid or EndpointInvalid."""
    columns: dict[str, Any] = {
        name: said[name] for name in ("url", "events", "description") if name in said
    }
    if "url" in said:
        _check_url(said["url"])
    if "events" in said:
        _check_events(said["events"])
        columns["events"] = sorted(set(said["events"]))
    if "headers" in said:
        try:
            check_headers(said["headers"])
        except HeadersRefused as refused:
            raise EndpointInvalid(f"Nothing was changed: {refused}") from None
        columns["headers"] = seal_headers(said["headers"])
    if "delays" in said:
        columns["delays"] = _delays(said["delays"])
    return columns


def _check_url(url: str) -> None:
    try:
        target_of(url, allow_http=settings.WEBHOOK_ALLOW_HTTP)
    except UrlRefused as refused:
        sentence = f"Nothing was changed: {refused}"
        raise UrlInvalid(sentence).telling(reason=refused.reason) from None


def _check_events(events: Sequence[str]) -> None:
    unknown = sorted(set(events) - set(SUBSCRIBABLE))
    if unknown or not events:
        raise EndpointInvalid(
            "Nothing was changed: an endpoint names at least one event, of these: "
            f"{', '.join(SUBSCRIBABLE)}."
        )


def _delays(delays: Sequence[float] | None) -> list[float] | None:
    if delays is None:
        return None
    if not 1 <= len(delays) <= MOST_DELAYS or not all(1 <= d <= LONGEST_DELAY for d in delays):
        raise EndpointInvalid(
            f"Nothing was changed: there are 1 to {MOST_DELAYS} delays, each of 1 to "
            f"{LONGEST_DELAY:.0f} seconds."
        )
    return [float(delay) for delay in delays]
