"""What may be registered as a kind, and what the system checks find at start-up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs import registry
from jobs.checks import check_kinds
from jobs.errors import UnknownKind
from jobs.kinds import Job, Kind, Run, job_kind, step
from jobs.models.ids import uuid7
from jobs.registry import KindSpec
from jobs.steps import Step


@pytest.fixture(autouse=True)
def _registrations_end() -> Iterator[None]:
    kinds = dict(registry.KINDS)
    yield
    registry.KINDS.clear()
    registry.KINDS.update(kinds)


@step("one")
def one() -> None: ...


def made(name: str = "scene.made", **policy: Any) -> Kind[..., Any]:
    @job_kind(name, **policy)
    def handler(run: Run, *, n: int, more: str = "x") -> None: ...

    return handler


@pytest.mark.parametrize("name", ["a.b", "shop.ship", "app1.a_b.c2"])
def test_a_kind_is_named_app_dot_name(name: str) -> None:
    assert registry.named(made(name).name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "charge",
        "Payments.charge",
        "payments.",
        ".charge",
        "1a.b",
        "a b.c",
        "a.b-c",
        "a." + "b" * 100,
    ],
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name is app"):
        made(name)


def test_a_name_is_taken_once() -> None:
    first = made()

    with pytest.raises(ValueError, match=r"'scene\.made' is already registered by .*made.*handler"):

        @job_kind("scene.made")
        def another(run: Run) -> None: ...

    assert registry.named("scene.made") is first.spec
    again = made()
    assert registry.named("scene.made") is again.spec, "a module that is loaded again"


def test_steps_of_one_kind_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="two steps have one name"):
        made(steps=(one, one))


@step("page", many=True)
def page(number: int) -> None: ...


@step.local("item", many=True)
def item(number: int) -> None: ...


def test_turns_that_are_not_read_back_are_local_ones() -> None:
    """Any other may have begun something of which only its checkpoint tells."""
    spec = replace(made(steps=(one, item)).spec, rereads=False)
    registry.register(spec)
    assert (spec.read_back, made().spec.read_back) == (("one",), None)
    with pytest.raises(ValueError, match="an intent must be read back"):
        registry.register(replace(spec, steps=(one, page)))


def test_an_unknown_kind_is_a_typed_error_that_says_what_to_do() -> None:
    assert registry.find("scene.nobody") is None
    with pytest.raises(UnknownKind) as raised:
        registry.named("scene.nobody")
    assert raised.value.code == "unknown_kind"
    assert "'scene.nobody'" in raised.value.sentence


def test_the_defaults_are_as_agreed() -> None:
    spec = made().spec
    told = {
        "queue": "default",
        "version": 1,
        "risk": 1,
        "api": False,
        "permission": "jobs.operate",
        "redact": (),
        "runbook": "",
        "autoretry_for": (),
        "dont_autoretry_for": (),
        "max_retries": 3,
        "retry_backoff": 1,
        "retry_backoff_max": 600,
        "retry_jitter": True,
        "soft_time_limit": 840,
        "time_limit": 900,
        "deadline": timedelta(hours=24),
        "max_losses": 3,
        "loss_is_failure": False,
        "lease": timedelta(seconds=60),
        "throttle": None,
        "per_workspace": None,
        "alert": "dead_letter",
    }
    assert {name: getattr(spec, name) for name in told} == told


def test_params_are_bound_as_they_are_given_and_defaults_are_not_filled_in() -> None:
    kind = made()
    assert kind.s(n=1).params == {"n": 1}
    assert kind.s(n=1, more="y").params == {"n": 1, "more": "y"}
    for wrong in ({}, {"n": 1, "m": 2}):
        with pytest.raises(TypeError):
            kind.s(**wrong)


def test_hooks_are_kept_in_their_order() -> None:
    kind = made()
    calls: list[str] = []
    kind.before(lambda job, verb: calls.append(f"1 {verb}"))
    kind.before(lambda job, verb: calls.append(f"2 {verb}"))
    kind.after(lambda job, verb, successor: calls.append(f"after {verb}"))
    for hook in kind.spec.before_hooks:
        hook(Job(), "resume")
    for told in kind.spec.after_hooks:
        told(Job(), "dead", None)
    assert calls == ["1 resume", "2 resume", "after dead"]


def test_a_risk_may_be_that_of_the_job_at_hand() -> None:
    assert made(risk=2).spec.risk_of(Job(key="x")) == 2
    spec = made("scene.judged", risk=lambda job: 3 if job.key == "destroy" else 1).spec
    assert (spec.risk_of(Job(key="destroy")), spec.risk_of(Job(key="look"))) == (3, 1)


def test_a_stored_name_belongs_to_its_declared_step() -> None:
    @step("page", many=True)
    def page() -> None: ...

    spec = made(steps=(one, page)).spec
    assert spec.step_named("one") is one
    assert spec.step_named("page:17") is page
    assert spec.step_named("page:eu:17") is page
    assert spec.step_named("removed") is None


# --- at start-up ---------------------------------------------------------------------------------


def faults(*steps: Step[..., Any], **policy: Any) -> list[str]:
    """The ids of what the checks find of one kind."""
    spec = KindSpec(**{**made().spec.__dict__, "steps": steps, **policy})
    registry.KINDS.clear()
    registry.KINDS[spec.name] = spec
    return [fault.id or "" for fault in check_kinds()]


def test_every_registered_kind_is_without_fault() -> None:
    assert check_kinds() == []


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ({"queue": "nowhere"}, "jobs.E001"),
        ({"soft_time_limit": 900, "time_limit": 900}, "jobs.E002"),
        ({"soft_time_limit": 0}, "jobs.E002"),
        ({"permission": "jobs.unheard_of"}, "jobs.E003"),
        ({"max_retries": -1}, "jobs.E004"),
        ({"max_losses": -1}, "jobs.E004"),
        ({"retry_backoff": 0}, "jobs.E005"),
        ({"retry_backoff": 10, "retry_backoff_max": 5}, "jobs.E005"),
        ({"lease": timedelta(seconds=2)}, "jobs.E006"),
        ({"risk": 4}, "jobs.E007"),
    ],
)
def test_a_policy_that_would_fail_at_night_fails_at_start_up(
    policy: dict[str, Any], fault: str
) -> None:
    assert faults(**policy) == [fault]


def test_a_fault_names_its_kind_and_helps() -> None:
    spec = KindSpec(**{**made().spec.__dict__, "queue": "nowhere"})
    registry.KINDS.clear()
    registry.KINDS[spec.name] = spec
    (fault,) = check_kinds()
    assert fault.msg == "kind scene.made: queue 'nowhere' does not exist"
    assert fault.hint is not None
    assert "default" in fault.hint


@pytest.mark.parametrize("name", ["", "a:b", "x" * 101])
def test_a_step_name_that_could_not_be_stored_is_found(name: str) -> None:
    assert faults(replace(one, name=name)) == ["jobs.E008"]


def test_a_key_that_is_never_remembered_is_found() -> None:
    @step.keyed("pay", remembers=timedelta(0))
    def pay(key: str) -> None: ...

    assert faults(pay) == ["jobs.E009"]


def test_a_step_that_does_nothing_when_it_is_called_is_reported() -> None:
    """It would be recorded as done, and no effect have happened."""

    @step.once("later")
    async def later() -> None: ...

    @step("slowly")
    def slowly() -> Iterator[int]:
        yield 1

    assert faults(later) == faults(slowly) == ["jobs.E012"]


# --- ids -----------------------------------------------------------------------------------------


def test_ids_are_version_7_unique_and_in_the_order_they_were_made() -> None:
    ids = [uuid7() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    moments = [each.int >> 64 for each in ids]
    assert moments == sorted(moments)
    assert len(set(moments)) > len({each.int >> 80 for each in ids}), "finer than milliseconds"
