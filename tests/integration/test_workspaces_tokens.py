"""Tokens of service accounts: what they are, what is kept of them, and when they work."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now

from workspaces import audit, closing, service_accounts, sql, tokens
from workspaces.actors import SYSTEM, Actor, Grant
from workspaces.errors import FiredoorError, WorkspaceClosed
from workspaces.models import AuditEvent, ServiceAccount, Token, Workspace
from workspaces.permissions import ACTIONS, TABLE, NotAllowed, Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

WHY = "it was in a public repository"
DAY = timedelta(days=1)


def account_in(workspace: Workspace | None, role: Role = Role.OPERATOR) -> ServiceAccount:
    return service_accounts.create("ci", role=role, workspace=workspace, actor=SYSTEM)


@pytest.fixture
def account(acme: Workspace) -> ServiceAccount:
    return account_in(acme)


def member(role: Role, workspace: Workspace | None) -> Actor:
    return Actor("user:7", "Ana", (Grant(role, workspace.pk if workspace else None),))


def works(text: str) -> bool:
    return tokens.bearer_of(text) is not None


# --- its form ------------------------------------------------------------------------------------


def test_a_token_has_256_random_bits_a_prefix_and_a_checksum(account: ServiceAccount) -> None:
    texts = {tokens.issue(account, actor=SYSTEM)[1] for _ in range(20)}
    assert len(texts) == 20
    for text in texts:
        assert re.fullmatch(r"fdr_[0-9A-Za-z]{49}", text)
        assert tokens.well_formed(text)
    assert 62**43 >= 2**256


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: text + "0",
        lambda text: text.removeprefix("fdr_"),
        lambda text: text.replace("fdr_", "ghp_"),
        lambda text: text.replace("fdr_", "FDR_"),
        lambda text: f" {text}",
        lambda text: text[:10] + ("a" if text[10] != "a" else "b") + text[11:],
        lambda text: text[:-1] + ("a" if text[-1] != "a" else "b"),
        lambda text: text[:20] + "\u0661" + text[21:],
        lambda text: text[:20] + "\x00" + text[21:],
    ],
)
def test_a_mistyped_token_is_refused_without_a_query(
    account: ServiceAccount, spoil: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _token, text = tokens.issue(account, actor=SYSTEM)
    asked = list[object]()  # the statement goes past Django's cursor, which alone is counted

    def noted(statement: str, _given: object) -> list[Any]:
        asked.append(statement)
        return []

    monkeypatch.setattr(sql, "execute_first", noted)
    assert not works(spoil(text))
    assert asked == []
    assert not works(text)
    assert len(asked) == 1


def test_only_a_digest_is_kept_and_nothing_that_is_kept_has_the_text(
    account: ServiceAccount,
) -> None:
    _token, text = tokens.issue(account, actor=SYSTEM)
    secret = text.removeprefix("fdr_")
    with connection.cursor() as cursor:
        for table in connection.introspection.django_table_names(only_existing=True):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            assert not [row for row in cursor.fetchall() if secret in repr(row)]
    assert Token.objects.get().digest == tokens.digest_of(text)
    assert text.startswith(Token.objects.get().hint)


# --- when it works -------------------------------------------------------------------------------


def test_it_speaks_for_its_account_with_its_role(account: ServiceAccount, acme: Workspace) -> None:
    token, text = tokens.issue(account, actor=SYSTEM)
    found = tokens.bearer_of(text)
    assert found is not None
    actor, proof = found
    assert (actor.id, actor.label, proof.token_id) == (f"service:{account.pk}", "ci", token.pk)
    assert proof.workspace == acme
    assert actor.roles == (Grant(Role.OPERATOR, acme.pk),)


def test_a_token_that_looks_right_but_was_never_made_is_nobodys() -> None:
    assert not works(tokens._new_text())


def test_it_expires(account: ServiceAccount) -> None:
    token, text = tokens.issue(account, actor=SYSTEM, lifetime=timedelta(minutes=1))
    left = token.expires_at - token.created_at
    assert timedelta(seconds=55) < left < timedelta(seconds=65)
    assert works(text)
    Token.objects.filter(pk=token.pk).update(expires_at=Now())
    assert not works(text)


@pytest.mark.parametrize("days", [0, -1, 1 / 24 / 61, 367])
def test_a_lifetime_is_from_a_minute_to_a_year(account: ServiceAccount, days: float) -> None:
    with pytest.raises(tokens.LifetimeInvalid):
        tokens.issue(account, actor=SYSTEM, lifetime=timedelta(days=days))
    assert not Token.objects.exists()


def test_a_revoked_one_works_no_longer_and_is_revoked_once(account: ServiceAccount) -> None:
    token, text = tokens.issue(account, actor=SYSTEM)
    first = tokens.revoke(token.pk, actor=SYSTEM, reason=WHY)
    again = tokens.revoke(token.pk, actor=SYSTEM, reason="once more")
    assert not works(text)
    assert first.revoked_at == again.revoked_at is not None
    event = AuditEvent.objects.get(action="token.revoke")
    assert (event.object_id, event.reason, event.result) == (str(token.pk), WHY, audit.DONE)


def test_rotated_both_work_until_the_overlap_ends(account: ServiceAccount) -> None:
    old, before = tokens.issue(account, actor=SYSTEM)
    new, after = tokens.rotate(old.pk, actor=SYSTEM, overlap=timedelta(hours=2))
    assert (works(before), works(after)) == (True, True)
    old.refresh_from_db()
    left = old.expires_at - new.created_at
    assert timedelta(hours=1.9) < left < timedelta(hours=2.1)
    assert new.expires_at > old.expires_at
    Token.objects.filter(pk=old.pk).update(expires_at=Now())
    assert (works(before), works(after)) == (False, True)
    event = AuditEvent.objects.get(action="token.rotate")
    assert isinstance(event.after, dict)
    assert (event.object_id, event.after["replaces"]) == (str(new.pk), old.pk)


def test_an_overlap_never_prolongs_the_old_one(account: ServiceAccount) -> None:
    old, _text = tokens.issue(account, actor=SYSTEM, lifetime=timedelta(hours=1))
    tokens.rotate(old.pk, actor=SYSTEM, overlap=DAY)
    assert Token.objects.get(pk=old.pk).expires_at == old.expires_at


def test_an_overlap_may_be_nothing_but_not_less(account: ServiceAccount) -> None:
    old, text = tokens.issue(account, actor=SYSTEM)
    with pytest.raises(tokens.LifetimeInvalid):
        tokens.rotate(old.pk, actor=SYSTEM, overlap=timedelta(seconds=-1))
    assert works(text)
    tokens.rotate(old.pk, actor=SYSTEM, overlap=timedelta(0))
    assert not works(text)


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_what_is_over_has_no_successor(account: ServiceAccount, end: str) -> None:
    old, _text = tokens.issue(account, actor=SYSTEM)
    Token.objects.filter(pk=old.pk).update(**{end: Now()})
    with pytest.raises(tokens.TokenOver):
        tokens.rotate(old.pk, actor=SYSTEM)
    assert Token.objects.count() == 1


def test_none_of_a_disabled_account_works_and_it_gets_no_more(account: ServiceAccount) -> None:
    token, text = tokens.issue(account, actor=SYSTEM)
    service_accounts.disable(account.pk, actor=SYSTEM, reason=WHY)
    assert not works(text)
    with pytest.raises(tokens.AccountDisabled):
        tokens.issue(account, actor=SYSTEM)
    with pytest.raises(tokens.AccountDisabled):
        tokens.rotate(token.pk, actor=SYSTEM)
    assert Token.objects.count() == 1


def test_an_account_is_disabled_once_for_good(account: ServiceAccount) -> None:
    first = service_accounts.disable(account.pk, actor=SYSTEM, reason=WHY)
    again = service_accounts.disable(account.pk, actor=SYSTEM, reason="once more")
    assert first.disabled_at == again.disabled_at is not None
    assert AuditEvent.objects.get(action="service_account.disable").reason == WHY


def test_none_of_a_closed_workspace_works_but_one_for_all_does(
    account: ServiceAccount, acme: Workspace
) -> None:
    _token, text = tokens.issue(account, actor=SYSTEM)
    _token, platform = tokens.issue(account_in(None), actor=SYSTEM)
    closing.close(acme.pk, actor=SYSTEM, reason="the contract ended")
    assert (works(text), works(platform)) == (False, True)
    with pytest.raises(tokens.AccountDisabled):
        tokens.issue(account, actor=SYSTEM)
    with pytest.raises(WorkspaceClosed):
        service_accounts.create("new", role=Role.VIEWER, workspace=acme, actor=SYSTEM)


def test_its_last_use_is_right_to_the_minute_and_costs_a_write_a_minute(
    account: ServiceAccount, django_assert_num_queries: Any
) -> None:
    token, text = tokens.issue(account, actor=SYSTEM)
    assert token.last_used_at is None
    look = 0 if connection.vendor == "postgresql" else 1  # there it goes past Django's cursor
    with django_assert_num_queries(look + 1):
        assert works(text)
    used = Token.objects.get().last_used_at
    assert used is not None
    with django_assert_num_queries(look):
        assert works(text)
    assert Token.objects.get().last_used_at == used

    Token.objects.update(last_used_at=Now() - timedelta(seconds=61))
    assert works(text)
    last = Token.objects.get().last_used_at
    assert last is not None
    assert last >= used


# --- who may -------------------------------------------------------------------------------------


def deeds(account: ServiceAccount, token: Token) -> dict[str, Callable[[Actor], object]]:
    return {
        "service_account.create": lambda actor: service_accounts.create(
            "new", role=Role.VIEWER, workspace=account.workspace, actor=actor
        ),
        "service_account.disable": lambda actor: service_accounts.disable(
            account.pk, actor=actor, reason=WHY
        ),
        "token.issue": lambda actor: tokens.issue(account, actor=actor),
        "token.rotate": lambda actor: tokens.rotate(token.pk, actor=actor),
        "token.revoke": lambda actor: tokens.revoke(token.pk, actor=actor, reason=WHY),
    }


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.LEAD])
def test_only_an_admin_hands_them_out_and_who_tries_is_on_record(
    account: ServiceAccount, acme: Workspace, role: Role
) -> None:
    token, text = tokens.issue(account, actor=SYSTEM)
    for action, deed in deeds(account, token).items():
        with pytest.raises(NotAllowed):
            deed(member(role, acme))
        event = AuditEvent.objects.first()
        assert event is not None
        assert (event.action, event.actor, event.result) == (action, "user:7", "not_allowed")
    assert works(text)
    assert (Token.objects.count(), ServiceAccount.objects.count()) == (1, 1)


def test_an_admin_of_the_workspace_does_it_all(account: ServiceAccount, acme: Workspace) -> None:
    token, _text = tokens.issue(account, actor=SYSTEM)
    every = deeds(account, token)
    for action in ("token.issue", "token.rotate", "token.revoke", *list(every)[:2]):
        every[action](member(Role.ADMIN, acme))
    done = AuditEvent.objects.filter(actor="user:7", result=audit.DONE)
    assert set(done.values_list("action", flat=True)) == set(every)


def test_an_admin_elsewhere_finds_nothing_here(account: ServiceAccount, globex: Workspace) -> None:
    token, _text = tokens.issue(account, actor=SYSTEM)
    stranger = member(Role.ADMIN, globex)
    every = deeds(account, token)
    del every["service_account.create"]
    for deed in every.values():
        with pytest.raises(FiredoorError) as caught:
            deed(stranger)
        assert caught.value.status == 404
    with pytest.raises(NotAllowed):
        service_accounts.create("x", role=Role.VIEWER, workspace=account.workspace, actor=stranger)


def test_nobody_gives_more_rights_than_they_hold(
    acme: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Today's admins hold all; the rule must not depend on it."""
    mighty = account_in(acme, Role.ADMIN)
    token, _text = tokens.issue(mighty, actor=SYSTEM)
    monkeypatch.setitem(TABLE, Role.LEAD, TABLE[Role.LEAD] | {"tokens.manage"})
    lead = member(Role.LEAD, acme)
    assert "workspaces.close" in ACTIONS - TABLE[Role.LEAD]

    for deed in (
        lambda: service_accounts.create("x", role=Role.ADMIN, workspace=acme, actor=lead),
        lambda: tokens.issue(mighty, actor=lead),
        lambda: tokens.rotate(token.pk, actor=lead),
    ):
        with pytest.raises(NotAllowed):
            deed()
    assert service_accounts.create("y", role=Role.LEAD, workspace=acme, actor=lead).pk


def test_an_admin_of_one_workspace_makes_no_account_for_all(acme: Workspace) -> None:
    admin = member(Role.ADMIN, acme)
    with pytest.raises(NotAllowed):
        service_accounts.create("x", role=Role.VIEWER, workspace=None, actor=admin)
    platform = account_in(None, Role.VIEWER)
    with pytest.raises(service_accounts.AccountNotFound):
        tokens.issue(platform, actor=admin)


# --- once ----------------------------------------------------------------------------------------


def test_a_form_that_is_sent_twice_makes_one_token(account: ServiceAccount) -> None:
    form = uuid4()
    token, _text = tokens.issue(account, actor=SYSTEM, operation_id=form)
    with pytest.raises(audit.OperationRepeated):
        tokens.issue(account, actor=SYSTEM, operation_id=form)
    with pytest.raises(audit.OperationRepeated):
        tokens.rotate(token.pk, actor=SYSTEM, operation_id=form)
    assert Token.objects.get() == token
    assert works(_text)


@pytest.mark.parametrize("workspace", [True, False], ids=["in one", "in all"])
def test_a_name_is_taken_once_in_its_place(acme: Workspace, workspace: bool) -> None:
    place = acme if workspace else None
    account_in(place)
    with pytest.raises(service_accounts.AccountExists):
        account_in(place)
    account_in(None if workspace else acme)
    assert ServiceAccount.objects.count() == 2


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x00b", "x" * 101])
def test_a_name_is_something_to_read(acme: Workspace, name: str) -> None:
    with pytest.raises(service_accounts.AccountInvalid):
        service_accounts.create(name, role=Role.VIEWER, workspace=acme, actor=SYSTEM)
    assert not ServiceAccount.objects.exists()


# --- the command ---------------------------------------------------------------------------------


def createtoken(*words: str) -> str:
    out = io.StringIO()
    call_command("createtoken", *words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


CI = ("--workspace", "acme", "--name", "ci")


@pytest.mark.usefixtures("acme")
def test_the_command_makes_account_and_token_and_prints_nothing_else() -> None:
    text = createtoken(*CI, "--role", "operator").removesuffix("\n")
    assert works(text)
    account = ServiceAccount.objects.get()
    assert (account.name, account.role, account.created_by) == ("ci", "operator", "system")
    again = json.loads(createtoken(*CI, "--expires-days", "2", "--json"))
    assert works(again["token"])
    assert (again["account"], again["workspace"], again["role"]) == (account.pk, "acme", "operator")
    token = Token.objects.get(pk=again["id"])
    assert timedelta(days=1.9) < token.expires_at - token.created_at < timedelta(days=2.1)


@pytest.mark.usefixtures("acme")
def test_the_command_rotates_and_revokes() -> None:
    old = createtoken(*CI, "--role", "viewer").strip()
    for endless in ("1e300", "nan", "inf", "-1"):
        with pytest.raises(CommandError, match="lifetime_invalid"):
            createtoken(*CI, "--rotate", f"--overlap-hours={endless}")
    new = createtoken(*CI, "--rotate", "--overlap-hours", "1").strip()
    assert (works(old), works(new)) == (True, True)
    ended = json.loads(createtoken(*CI, "--revoke", "--reason", WHY, "--json"))
    assert (works(old), works(new), len(ended["revoked"])) == (False, False, 2)


@pytest.mark.usefixtures("acme")
def test_the_command_acts_on_the_one_token_that_is_named() -> None:
    one = json.loads(createtoken(*CI, "--role", "viewer", "--json"))
    other = createtoken(*CI).strip()
    createtoken(*CI, "--revoke", "--token", str(one["id"]), "--reason", WHY)
    assert (works(one["token"]), works(other)) == (False, True)


def test_the_command_makes_one_for_all_workspaces_only_when_told(acme: Workspace) -> None:
    with pytest.raises(CommandError, match="--workspace --all-workspaces is required"):
        createtoken("--name", "ci", "--role", "viewer")
    text = createtoken("--all-workspaces", "--name", "ci", "--role", "viewer").strip()
    found = tokens.bearer_of(text)
    assert found is not None
    assert found[0].roles == (Grant(Role.VIEWER, None),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workspace", "nope", "--name", "ci", "--role", "viewer"), "no_such_workspace"),
        ((*CI[:2], "--name", "new"), "say its --role"),
        ((*CI, "--role", "admin"), "is operator there"),
        ((*CI, "--expires-days", "1000"), "lifetime_invalid"),
        ((*CI, "--expires-days", "nan"), "lifetime_invalid"),
        ((*CI[:2], "--name", "new", "--role", "viewer", "--expires-days", "0"), "lifetime_invalid"),
        ((*CI, "--rotate"), "no such living token"),
        ((*CI, "--revoke", "--reason", WHY), "no such living token"),
        ((*CI[:2], "--name", "new", "--revoke", "--reason", WHY), "account_not_found"),
    ],
)
def test_the_command_says_what_it_will_not_do_and_leaves_nothing(
    account: ServiceAccount, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(CommandError, match=said):
        createtoken(*words)
    assert (Token.objects.count(), ServiceAccount.objects.count()) == (0, 1)


def test_a_refused_command_is_on_record(account: ServiceAccount) -> None:
    service_accounts.disable(account.pk, actor=SYSTEM, reason=WHY)
    with pytest.raises(CommandError, match="account_disabled"):
        createtoken(*CI)
    event = AuditEvent.objects.get(action="token.issue")
    assert (event.object_id, event.result) == (str(account.pk), "account_disabled")
