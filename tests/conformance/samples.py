"""What the suite needs to run each registered kind: fresh params, and what the world saw of them.

A kind that is registered and in neither table fails the suite: add a sample, or say why not.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from pytest_django import Settings

from examples.payments import client
from examples.payments import ledger as payments
from examples.payments.provider import running
from examples.registry.control import RegistryControl
from examples.registry.server import running as registry
from provisioning.lifecycle.stack import effects_ledger
from tests.drills.ledger import effects
from tests.support.receiver import receiver
from tests.support.terraform import real_tool
from webhooks import bodies, endpoints
from webhooks.models import Message, WebhookDelivery
from workspaces.actors import SYSTEM
from workspaces.models import Workspace

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """See ``jobs.testing.scenarios`` for what each of these is."""

    params: Callable[[], Params]
    effects: Callable[[Params], Mapping[str, int]] | None = None
    secrets: tuple[str, ...] = ()


# A kind whose every run takes seconds is tried at the points where it may break; all of them
# with CONFORMANCE=all.
WORTH_THE_TIME = {
    "provisioning.provision": frozenset(
        {
            "runs every step once",
            "hides its secrets",
            "crash during plan",
            "crash before apply",
            "crash started apply",
            "crash during apply",
            "crash after apply",
            "crash during register",
            "crash during ready",
            "resume at register",
            "restart at apply",
        }
    )
}

Environment = Callable[[Path, Settings], Iterator[Sample]]

EXEMPT = {
    "drills.kills_itself": "it kills its own process; acceptance runs it in a real one",
    "jobs.operation": "an operation makes its job, with a frozen list; test_operations_running",
    "drills.locking": "it calls one of its steps or the other; its locks are tested by themselves",
    "drills.not_happened": "its reconcile lies on purpose; test_the_suite shows that it is caught",
}


def ledgers(path: Path, **more: Any) -> Callable[[], Params]:
    """Params that name a ledger of their own for each intent."""
    numbers = itertools.count()
    return lambda: {"ledger": str(path / f"{next(numbers)}.ledger"), **more}


def counted(*steps: str) -> Callable[[Params], Mapping[str, int]]:
    """How often each step wrote its name; ``step=word`` for one that writes another word."""
    words = {step: word or step for step, _, word in (each.partition("=") for each in steps)}
    return lambda params: {s: effects(params["ledger"])[word] for s, word in words.items()}


def drill(*steps: str, **more: Any) -> Environment:
    """A drill whose steps each write their own name into the ledger."""

    def environment(path: Path, _settings: Settings) -> Iterator[Sample]:
        yield Sample(ledgers(path, **more), counted(*steps))

    return environment


def keyed_drill(path: Path, _settings: Settings) -> Iterator[Sample]:
    def happened(params: Params) -> Mapping[str, int]:
        """The provider's view: one effect a key, however often it was sent."""
        lines = effects(params["ledger"])
        return {"reserve": sum(line.startswith("key:") for line in lines)}

    yield Sample(ledgers(path), happened)


def paid_steps(lines: list[dict[str, Any]], order: str) -> Mapping[str, int]:
    """The effects at the provider that belong to one order."""
    seen: Counter[str] = Counter()
    ids = {order}
    for line in lines:
        request = line["request"]
        if ids & {str(value) for value in request.values()}:
            ids.add(str(line["id"]))
            seen[line["effect"]] += 1
    return {"reserve": seen["hold"], "charge": seen["charge"], "receipt": seen["receipt"]}


def charged(path: Path, settings: Settings) -> Iterator[Sample]:
    numbers = itertools.count()
    kept = path / "payments.jsonl"
    with running(kept) as provider:
        settings.PAYMENTS_URL = provider.url
        yield Sample(
            lambda: {"order_id": f"order-{next(numbers)}", "cents": 4200},
            lambda params: paid_steps(payments.read(kept), params["order_id"]),
        )


def refunded(path: Path, settings: Settings) -> Iterator[Sample]:
    numbers = itertools.count()
    kept = path / "payments.jsonl"

    def paid() -> Params:
        order = f"order-{next(numbers)}"
        held = client.hold(order, order)
        return {"payment": client.charge(held["id"], 4200)["id"]}

    def happened(params: Params) -> Mapping[str, int]:
        lines = [line for line in payments.read(kept) if line["effect"] == "refund"]
        return {"refund": sum(line["request"]["payment"] == params["payment"] for line in lines)}

    with running(kept) as provider:
        settings.PAYMENTS_URL = provider.url
        yield Sample(paid, happened)


def provisioned(path: Path, settings: Settings) -> Iterator[Sample]:
    real_tool()
    settings.FIREDOOR_PROVISIONING = path / "provisioning"
    numbers = itertools.count()

    def happened(params: Params) -> Mapping[str, int]:
        """The module's ledger has a line for each resource made; here all three or none."""
        ledger = effects_ledger()
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        made = Counter(line.split()[1] for line in lines if line.split()[0] == params["slug"])
        times = set(made.values())
        return {
            "apply": times.pop() if len(times) == 1 and len(made) == 3 else -1,
            "register": len(control.registrations(params["slug"])),
        }

    with registry(path / "registry.jsonl") as server:
        settings.FIREDOOR_REGISTRY_URL = server.url
        control = RegistryControl(server.url)

        def another_tenant() -> dict[str, Any]:
            """The workspace of the jobs by a new name, since each provisions its own alone."""
            slug = f"tenant-{next(numbers)}"
            Workspace.objects.update(slug=slug)
            return {"slug": slug}

        yield Sample(another_tenant, happened)


def delivered(_path: Path, settings: Settings) -> Iterator[Sample]:
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOW_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiver() as hook:

        def made() -> Params:
            """A delivery that no job has yet: the suite makes its own."""
            place, _ = Workspace.objects.get_or_create(slug="acme", defaults={"name": "Acme"})
            target, _secret = endpoints.create(
                place, url=hook.url, events=["job.dead"], actor=SYSTEM
            )
            message = Message.objects.create(
                id=bodies.new_id(), workspace=place, type="job.dead", body=b"{}"
            )
            delivery = WebhookDelivery.objects.create(
                workspace=place, endpoint=target, message=message
            )
            return {"endpoint_id": str(target.pk), "delivery_id": str(delivery.pk)}

        yield Sample(made)


SAMPLES: dict[str, Environment] = {
    "drills.account": drill("first", account="bank-1"),
    "drills.gated": drill("second", account="bank-1"),
    "drills.held": drill("before", "work", "after"),
    "drills.held_asking": drill("before", "pay_or_ask=pay", "after"),
    "drills.held_once": drill("before", "pay", "after"),
    "drills.keyed": keyed_drill,
    "drills.noop": lambda path, settings: iter([Sample(dict)]),
    "drills.once": drill("charge", "second"),
    "drills.pages": drill(count=2),
    "drills.patient": drill("before", "work"),
    "drills.reconciled": drill("charge_found", "second"),
    "drills.repeatable": drill("first", "second"),
    "drills.secretive": drill("login", "first", card={"number": 'canary "4711" ß', "cents": 1}),
    "drills.shared": drill("second"),
    "drills.slow": drill("work"),
    "drills.stubborn": drill("stubborn"),
    "drills.stubborn_once": drill("pay_stubbornly=pay"),
    "drills.throttled": drill("first"),
    "payments.charge": charged,
    "payments.refund": refunded,
    "provisioning.provision": provisioned,
    "webhooks.deliver": delivered,
}


@contextmanager
def sample_of(kind: str, path: Path, settings: Settings) -> Iterator[Sample]:
    """The sample of a kind, and the world it needs while the block lasts."""
    world = SAMPLES[kind](path, settings)
    try:
        yield next(world)
    finally:
        for _ in world:
            raise AssertionError(f"{kind}: an environment yields one sample")
