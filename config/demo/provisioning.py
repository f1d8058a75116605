"""The story on Terraform: two workspaces are provisioned while their registry is down."""

from __future__ import annotations

from collections import Counter

from examples.registry.control import RegistryControl
from jobs.models import Job
from provisioning.lifecycle.kinds import provision
from provisioning.lifecycle.models import Lifecycle
from provisioning.lifecycle.request import request
from provisioning.lifecycle.stack import effects_ledger
from provisioning.terraform.binary import Binary
from workspaces.actors import Actor
from workspaces.models import Workspace


class Provisioning:
    """Workspaces, each three resources and a line in the registry."""

    broken = "The registry that every new workspace is entered in answers 503."
    mended = "the registry is back"

    def __init__(self, tool: Binary, registry_url: str) -> None:
        self._registry = RegistryControl(registry_url)
        self.opening = (
            f"Two workspaces are requested. Each is provisioned by {tool}: plan, apply,"
            " verify, register, ready."
        )

    def let_it_fail(self) -> None:
        self._registry.down()

    def mend(self) -> None:
        self._registry.up()

    def begin(self, workspace: Workspace, actor: Actor) -> Job:
        request(workspace, actor=actor)
        return Job.objects.get(workspace=workspace, kind=provision.name)

    def effects(self, job: Job) -> dict[str, int]:
        slug = job.workspace.slug
        lines = [line.split() for line in effects_ledger().read_text().splitlines()]
        found = Counter(resource for workspace, resource, _ in lines if workspace == slug)
        return {**found, "registration": len(self._registry.registrations(slug))}

    def ending(self, job: Job) -> str:
        lifecycle = Lifecycle.objects.get(workspace_id=job.workspace_id)
        return f"workspace {job.workspace.slug} is {lifecycle.get_state_display()}"
