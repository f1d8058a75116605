"""Service accounts and their tokens at the console, and the records of Idempotency-Keys."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from tests.integration.console_scene import at_console
from workspaces import closing, service_accounts, tokens
from workspaces.actors import SYSTEM
from workspaces.models import AuditEvent, IdempotencyRecord, ServiceAccount, Token, Workspace
from workspaces.permissions import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

WHY = "it was in a public repository"
LIST = "admin:workspaces_serviceaccount_changelist"


@pytest.fixture
def account(acme: Workspace) -> ServiceAccount:
    return service_accounts.create("ci", role=Role.OPERATOR, workspace=acme, actor=SYSTEM)


@pytest.fixture
def ada(acme: Workspace) -> Client:
    return at_console("ada", Role.ADMIN, acme)


def of(deed: str, *ids: object) -> str:
    return reverse(f"admin:workspaces_serviceaccount_{deed}", args=ids)


def page(account: ServiceAccount) -> str:
    return reverse("admin:workspaces_serviceaccount_change", args=[account.pk])


def text(response: Any) -> str:
    return str(response.content.decode())


def form_on(client: Client, url: str, **typed: Any) -> dict[str, Any]:
    """What a browser would post: the hidden fields of the page, and what is typed."""
    response: Any = client.get(url)
    assert response.status_code == 200, text(response)
    hidden = {
        "operation_id": str(response.context["operation_id"]),
        "csrfmiddlewaretoken": client.cookies["csrftoken"].value,
    }
    shown = {field.name: field.value() for field in response.context["form"]}
    return {**{n: v for n, v in shown.items() if v is not None}, **hidden, **typed}


def token_on(response: Any) -> str:
    (found,) = re.findall(r"fdr_[0-9A-Za-z]{49}", text(response))
    return str(found)


# --- accounts ------------------------------------------------------------------------------------


def test_an_account_is_made_with_one_role_in_one_workspace(ada: Client, acme: Workspace) -> None:
    url = of("create")
    answer = ada.post(url, form_on(ada, url, name="ci", role="lead", workspace="acme"))
    account = ServiceAccount.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, page(account))
    assert (account.name, account.role, account.workspace) == ("ci", "lead", acme)
    assert account.created_by.startswith("user:")
    told = text(ada.get(page(account)))
    assert "Made: ci. It has no token yet." in told
    assert "Issue token…" in told
    assert "ci" in text(ada.get(reverse(LIST)))


def test_who_has_one_workspace_finds_it_filled_in(ada: Client, globex: Workspace) -> None:
    both = at_console("both", Role.ADMIN)
    assert form_on(ada, of("create"))["workspace"] == "acme"
    assert form_on(both, of("create"))["workspace"] == ""
    assert form_on(both, of("create") + "?workspace=globex")["workspace"] == "globex"


@pytest.mark.parametrize(
    ("typed", "status", "code"),
    [
        ({"name": "", "role": "viewer", "workspace": "acme"}, 422, "form_incomplete"),
        ({"name": "ci", "role": "king", "workspace": "acme"}, 422, "form_incomplete"),
        ({"name": "ci", "role": "viewer"}, 422, "form_incomplete"),
        (
            {"name": "ci", "role": "viewer", "workspace": "acme", "everywhere": "on"},
            422,
            "form_incomplete",
        ),
        ({"name": "ci", "role": "viewer", "everywhere": "on"}, 403, "not_allowed"),
        ({"name": "ci", "role": "viewer", "workspace": "globex"}, 404, "no_such_workspace"),
        ({"name": "taken", "role": "viewer", "workspace": "acme"}, 409, "account_exists"),
    ],
)
@pytest.mark.usefixtures("globex")
def test_what_cannot_be_made_is_said_and_what_was_typed_is_kept(
    ada: Client, acme: Workspace, typed: dict[str, str], status: int, code: str
) -> None:
    service_accounts.create("taken", role=Role.VIEWER, workspace=acme, actor=SYSTEM)
    answer = ada.post(of("create"), {**form_on(ada, of("create")), "workspace": "", **typed})
    assert (answer.status_code, f"Code: {code}" in text(answer)) == (status, True)
    assert f'value="{typed["name"]}"' in text(answer) or not typed["name"]
    assert ServiceAccount.objects.count() == 1


def test_an_account_is_disabled_with_a_reason(ada: Client, account: ServiceAccount) -> None:
    _token, secret = tokens.issue(account, actor=SYSTEM)
    url = of("disable", account.pk)
    silent = ada.post(url, form_on(ada, url, reason=" "))
    done = ada.post(url, form_on(ada, url, reason=WHY))
    assert (silent.status_code, done.status_code) == (422, 303)
    assert tokens.bearer_of(secret) is None
    told = text(ada.get(page(account)))
    assert "Disabled: none of its tokens works." in told
    assert "Issue token…" not in told
    assert AuditEvent.objects.get(action="service_account.disable").reason == WHY


# --- tokens --------------------------------------------------------------------------------------


def test_a_token_is_shown_once_on_a_page_that_nothing_keeps(
    ada: Client, account: ServiceAccount
) -> None:
    url = of("issue", account.pk)
    form = form_on(ada, url, days="7")
    answer = ada.post(url, form)
    secret = token_on(answer)

    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert tokens.bearer_of(secret) is not None
    token = Token.objects.get()
    assert timedelta(days=6.9) < token.expires_at - token.created_at < timedelta(days=7.1)
    for later in (page(account), reverse(LIST), url, reverse("admin:index")):
        assert secret not in text(ada.get(later))
    event = AuditEvent.objects.get(action="token.issue")
    assert (event.request_id, str(event.operation_id)) == (
        answer["X-Request-ID"],
        form["operation_id"],
    )


def test_a_page_that_is_sent_again_shows_no_token_and_makes_none(
    ada: Client, account: ServiceAccount
) -> None:
    url = of("issue", account.pk)
    form = form_on(ada, url)
    secret = token_on(ada.post(url, form))
    again = ada.post(url, form)
    assert again.status_code == 409
    assert "has been carried out before" in text(again)
    assert secret not in text(again)
    assert Token.objects.count() == 1


def test_a_rotated_token_works_beside_its_successor(ada: Client, account: ServiceAccount) -> None:
    old, before = tokens.issue(account, actor=SYSTEM)
    url = of("rotate", old.pk)
    after = token_on(ada.post(url, form_on(ada, url, days="30", hours="2")))
    assert tokens.bearer_of(before) is not None
    assert tokens.bearer_of(after) is not None
    old.refresh_from_db()
    assert old.expires_at - Token.objects.latest("pk").created_at < timedelta(hours=2.1)


def test_a_token_is_revoked_with_a_reason(ada: Client, account: ServiceAccount) -> None:
    token, secret = tokens.issue(account, actor=SYSTEM)
    url = of("revoke", token.pk)
    answer = ada.post(url, form_on(ada, url, reason=WHY))
    assert (answer.status_code, answer["Location"]) == (303, page(account))
    assert tokens.bearer_of(secret) is None
    assert "revoked" in text(ada.get(page(account)))
    event = AuditEvent.objects.get(action="token.revoke")
    assert (event.object_id, event.reason) == (str(token.pk), WHY)


@pytest.mark.parametrize(
    ("deed", "typed"),
    [
        ("issue", {"days": "0"}),
        ("issue", {"days": "367"}),
        ("issue", {"days": "x"}),
        ("rotate", {"days": "30", "hours": "-1"}),
        ("rotate", {"days": "30", "hours": "999"}),
        ("revoke", {"reason": ""}),
        ("revoke", {"reason": "x" * 2001}),
    ],
)
def test_what_is_typed_wrong_does_nothing(
    ada: Client, account: ServiceAccount, deed: str, typed: dict[str, str]
) -> None:
    token, secret = tokens.issue(account, actor=SYSTEM)
    url = of(deed, account.pk if deed == "issue" else token.pk)
    answer = ada.post(url, form_on(ada, url, **typed))
    assert answer.status_code == 422
    assert 'role="alert"' in text(answer)
    assert Token.objects.count() == 1
    assert tokens.bearer_of(secret) is not None


def test_a_form_without_its_one_time_id_does_nothing(ada: Client, account: ServiceAccount) -> None:
    url = of("issue", account.pk)
    answer = ada.post(url, {**form_on(ada, url, days="7"), "operation_id": "x"})
    assert (answer.status_code, Token.objects.count()) == (422, 0)


def test_a_form_from_elsewhere_does_nothing(ada: Client, account: ServiceAccount) -> None:
    url = of("issue", account.pk)
    form = {**form_on(ada, url, days="7"), "csrfmiddlewaretoken": "x" * 64}
    assert (ada.post(url, form).status_code, Token.objects.count()) == (403, 0)


def test_the_page_tells_which_tokens_work(
    ada: Client, account: ServiceAccount, acme: Workspace
) -> None:
    made = [tokens.issue(account, actor=SYSTEM)[0] for _ in range(3)]
    tokens.revoke(made[0].pk, actor=SYSTEM, reason=WHY)
    Token.objects.filter(pk=made[1].pk).update(expires_at=Now())
    shown: Any = ada.get(page(account))
    assert [token.state for token in shown.context["tokens"]] == ["works", "expired", "revoked"]
    assert text(shown).count("Rotate…") == 1
    assert [row.works for row in ada.get(reverse(LIST)).context["cl"].result_list] == [1]

    everywhere = at_console("root", Role.ADMIN)
    closing.close(acme.pk, actor=SYSTEM, reason="the contract ended")
    closed: Any = everywhere.get(page(account))
    assert closed.context["tokens"][0].state == "workspace closed"
    assert "Its workspace is closed" in text(closed)


# --- who -----------------------------------------------------------------------------------------


def addresses(account: ServiceAccount, token: Token) -> list[str]:
    return [
        of("issue", account.pk),
        of("disable", account.pk),
        of("rotate", token.pk),
        of("revoke", token.pk),
    ]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.LEAD])
def test_who_is_no_admin_sees_none_and_is_on_record_when_they_try(
    ada: Client, account: ServiceAccount, acme: Workspace, role: Role
) -> None:
    token, secret = tokens.issue(account, actor=SYSTEM)
    somebody = at_console("somebody", role, acme)
    assert somebody.get(reverse(LIST)).status_code == 403
    assert somebody.get(page(account)).status_code in (403, 404)
    assert somebody.get(of("create")).status_code == 403
    somebody.get(reverse("admin:index"))
    for url in addresses(account, token):
        assert somebody.get(url).status_code == 403
        typed = form_on(ada, url, reason=WHY)
        typed["csrfmiddlewaretoken"] = csrf_of(somebody)
        assert somebody.post(url, typed).status_code == 403
    refused = AuditEvent.objects.filter(actor_label="somebody", result="not_allowed")
    assert set(refused.values_list("action", flat=True)) == {
        "token.issue",
        "token.rotate",
        "token.revoke",
        "service_account.disable",
    }
    assert tokens.bearer_of(secret) is not None
    assert Token.objects.count() == 1


def csrf_of(client: Client) -> str:
    client.get(reverse("admin:password_change"))
    return str(client.cookies["csrftoken"].value)


def test_an_admin_elsewhere_finds_nothing(account: ServiceAccount, globex: Workspace) -> None:
    token, _secret = tokens.issue(account, actor=SYSTEM)
    gus = at_console("gus", Role.ADMIN, globex)
    assert text(gus.get(reverse(LIST))).count("No service accounts here.") == 1
    for url in [page(account), *addresses(account, token)]:
        assert gus.get(url).status_code == 404
        assert gus.post(url, {"csrfmiddlewaretoken": csrf_of(gus)}).status_code in (404, 405)
    assert gus.get(of("issue", 10**6)).status_code == 404


def test_the_page_of_an_account_changes_nothing(ada: Client, account: ServiceAccount) -> None:
    assert ada.post(page(account), {"csrfmiddlewaretoken": csrf_of(ada)}).status_code == 405


def test_the_navigation_leads_there_only_whom_it_may(ada: Client, acme: Workspace) -> None:
    vic = at_console("vic", Role.VIEWER, acme)
    assert reverse(LIST) in text(ada.get(reverse("admin:index")))
    assert reverse(LIST) not in text(vic.get(reverse("admin:index")))


# --- idempotency records -------------------------------------------------------------------------


def record_in(workspace: Workspace, **other: Any) -> IdempotencyRecord:
    told = {
        "principal": "service:1", "key": f"key-{uuid4()}", "fingerprint": "fp1:x", "path": "/x/",
        "method": "POST", "status": 201, "request_id": "request-1", "body": b'{"id": "j-1"}',
        "created_at": Now(), "expires_at": Now() + timedelta(days=1),
    }  # fmt: skip
    return IdempotencyRecord.objects.create(workspace=workspace, **{**told, **other})


RECORDS = "admin:workspaces_idempotencyrecord_changelist"
RECORD = "admin:workspaces_idempotencyrecord_change"


def test_records_are_found_by_key_and_by_request_id(acme: Workspace) -> None:
    mine = record_in(acme, key="order-0042", request_id="request-7", last_request_id="request-9")
    record_in(acme, key="order-0043")
    ola = at_console("ola", Role.OPERATOR, acme)
    for term in ("order-0042", "request-7", "request-9", " order-0042 "):
        found: Any = ola.get(reverse(RECORDS), {"q": term})
        assert [row.pk for row in found.context["cl"].result_list] == [mine.pk]
    none: Any = ola.get(reverse(RECORDS), {"q": "order-004"})
    assert list(none.context["cl"].result_list) == []


def test_a_record_is_read_by_whoever_reads_the_trail_and_by_nobody_else(
    acme: Workspace, globex: Workspace
) -> None:
    mine = record_in(acme, body=b'{"id": "j-1", "password": "hunter2-canary"}')
    theirs = record_in(globex)
    ola, vic = at_console("ola", Role.OPERATOR, acme), at_console("vic", Role.VIEWER, acme)

    shown = ola.get(reverse(RECORD, args=[mine.pk]))

    assert "j-1" in text(shown)
    assert "hunter2-canary" not in text(shown)
    assert 'name="_save"' not in text(shown)
    assert ola.get(reverse(RECORD, args=[theirs.pk])).status_code == 404
    assert vic.get(reverse(RECORDS)).status_code == 403
    change = ola.post(reverse(RECORD, args=[mine.pk]), {"csrfmiddlewaretoken": csrf_of(ola)})
    assert change.status_code == 403
    assert (
        ola.get(reverse("admin:workspaces_idempotencyrecord_delete", args=[mine.pk])).status_code
        == 403
    )


def test_a_secret_typed_as_a_reason_is_shown_nowhere(ada: Client, account: ServiceAccount) -> None:
    reason = f"{WHY}: password=hunter2-canary"
    form = form_on(ada, of("disable", account.pk), reason=reason)
    refused = ada.post(of("disable", account.pk), {**form, "operation_id": ""})
    done = ada.post(of("disable", account.pk), form)
    event = AuditEvent.objects.get(action="service_account.disable")
    trail = ada.get(reverse("admin:workspaces_auditevent_change", args=[event.pk]))
    assert (refused.status_code, done.status_code) == (422, 303)
    for shown in (text(refused), text(ada.get(page(account))), text(trail), event.reason):
        assert "hunter2" not in shown
    assert event.reason == f"{WHY}: password=[hidden]"


def test_a_reason_that_is_too_long_is_marked_so(ada: Client, account: ServiceAccount) -> None:
    form = form_on(ada, of("disable", account.pk), reason="x" * 2001)
    answer = ada.post(of("disable", account.pk), form)
    assert (answer.status_code, "This is too long." in text(answer)) == (422, True)
