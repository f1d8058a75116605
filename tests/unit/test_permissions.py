"""The permission table, asked about every role, action, verb and place."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pytest

from workspaces.actors import SYSTEM, Actor, Grant
from workspaces.permissions import ACTIONS, TABLE, VERBS, NotAllowed, Role, allowed, require

HERE, ELSEWHERE = 1, 2

# Written out a second time on purpose: a slip in the table must not pass by being copied.
LOWEST_ROLE = {
    "jobs.view": Role.VIEWER,
    "alerts.view": Role.VIEWER,
    "webhooks.view": Role.VIEWER,
    "webhooks.operate": Role.OPERATOR,
    "webhooks.manage": Role.ADMIN,
    "jobs.enqueue": Role.OPERATOR,
    "jobs.operate": Role.OPERATOR,
    "alerts.operate": Role.OPERATOR,
    "audit.view": Role.OPERATOR,
    "operations.run": Role.OPERATOR,
    "jobs.operate_risky": Role.LEAD,
    "locks.force": Role.LEAD,
    "operations.large": Role.LEAD,
    "members.manage": Role.ADMIN,
    "tokens.manage": Role.ADMIN,
    "workspaces.close": Role.ADMIN,
}
RANK = [Role.VIEWER, Role.OPERATOR, Role.LEAD, Role.ADMIN]
MATRIX = [
    (role, action, RANK.index(role) >= RANK.index(lowest))
    for role in RANK
    for action, lowest in LOWEST_ROLE.items()
]


@dataclass(frozen=True)
class KindOf:
    permission: str = "jobs.operate"
    risk: int = 1


def member(*grants: tuple[Role, int | None]) -> Actor:
    return Actor("user:7", "Ana", tuple(Grant(role, place) for role, place in grants))


def test_every_role_and_every_action_is_in_the_expected_matrix() -> None:
    assert set(TABLE) == set(Role) == set(RANK)
    assert set(LOWEST_ROLE) == ACTIONS


@pytest.mark.parametrize(("role", "action", "expected"), MATRIX)
def test_a_role_may_do_exactly_what_the_matrix_says(
    role: Role, action: str, *, expected: bool
) -> None:
    assert allowed(member((role, HERE)), action, HERE) is expected


@pytest.mark.parametrize(("role", "action", "expected"), MATRIX)
def test_a_membership_of_all_workspaces_counts_in_each_and_for_the_platform(
    role: Role, action: str, *, expected: bool
) -> None:
    everywhere = member((role, None))
    assert allowed(everywhere, action, HERE) is expected
    assert allowed(everywhere, action, None) is expected


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("role", RANK)
def test_a_membership_of_one_workspace_is_worth_nothing_elsewhere(role: Role, action: str) -> None:
    local = member((role, HERE))
    assert not allowed(local, action, ELSEWHERE)
    assert not allowed(local, action, None)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_without_a_membership_nothing_is_allowed(action: str) -> None:
    assert not allowed(member(), action, HERE)


def test_two_memberships_add_up_and_only_where_they_hold() -> None:
    actor = member((Role.VIEWER, None), (Role.ADMIN, HERE))
    assert allowed(actor, "workspaces.close", HERE)
    assert allowed(actor, "jobs.view", ELSEWHERE)
    assert not allowed(actor, "jobs.operate", ELSEWHERE)


@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize(
    ("risk", "lowest"),
    [(1, Role.OPERATOR), (2, Role.OPERATOR), (3, Role.LEAD)],
)
def test_a_verb_needs_the_kinds_right_and_from_risk_three_a_lead(
    verb: str, risk: int, lowest: Role
) -> None:
    may = {role for role in RANK if allowed(member((role, HERE)), verb, HERE, KindOf(risk=risk))}
    assert may == set(RANK[RANK.index(lowest) :])


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_follows_the_kinds_own_permission(verb: str) -> None:
    guarded = KindOf(permission="locks.force")
    assert not allowed(member((Role.OPERATOR, HERE)), verb, HERE, guarded)
    assert allowed(member((Role.LEAD, HERE)), verb, HERE, guarded)


def test_a_kind_with_a_permission_that_no_role_has_is_closed_to_everyone_but_the_system() -> None:
    orphan = KindOf(permission="payments.refund")
    assert not allowed(member((Role.ADMIN, None)), "resume", HERE, orphan)
    assert allowed(SYSTEM, "resume", HERE, orphan)


@pytest.mark.parametrize("place", [HERE, None])
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_the_system_may_do_everything(action: str, place: int | None) -> None:
    assert allowed(SYSTEM, action, place)


@pytest.mark.parametrize("actor", [SYSTEM, member((Role.ADMIN, None))])
def test_an_action_that_does_not_exist_is_a_mistake_not_a_denial(actor: Actor) -> None:
    with pytest.raises(ValueError, match=r"no action 'jobs\.oparate'"):
        allowed(actor, "jobs.oparate", HERE)


@pytest.mark.parametrize("actor", [SYSTEM, member((Role.ADMIN, None))])
def test_a_verb_without_a_kind_is_a_mistake_not_a_denial(actor: Actor) -> None:
    with pytest.raises(ValueError, match="its kind says"):
        allowed(actor, "resume", HERE)


def test_a_refusal_names_the_missing_right_the_person_and_the_way_out() -> None:
    with pytest.raises(NotAllowed) as caught:
        require(member((Role.OPERATOR, HERE)), "restart", HERE, KindOf(risk=3))
    refusal = caught.value
    assert (refusal.code, refusal.status, refusal.right) == (
        "not_allowed",
        403,
        "jobs.operate_risky",
    )
    assert refusal.sentence == (
        "Nothing was done: Ana lacks the right 'jobs.operate_risky' here. "
        "Ask an admin of the workspace; a role that has it is 'lead'."
    )


def test_a_refusal_of_a_risky_deed_names_the_kinds_own_right_first() -> None:
    with pytest.raises(NotAllowed) as caught:
        require(member((Role.VIEWER, HERE)), "cancel", HERE, KindOf(risk=3))
    assert caught.value.right == "jobs.operate"


def test_require_lets_through_what_is_allowed() -> None:
    require(member((Role.LEAD, HERE)), "restart", HERE, KindOf(risk=3))


def test_an_error_survives_the_way_between_processes() -> None:
    error = NotAllowed("jobs.operate", "Ana")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(copy), copy.right, copy.code) == (error.sentence, "jobs.operate", "not_allowed")
