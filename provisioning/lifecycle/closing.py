"""What must not be cut off when a workspace closes? An apply whose end nobody knows.

Stopping the job is the kernel's part: its hooks then move the lifecycle.
"""

from __future__ import annotations

from jobs.models import Step
from jobs.models.step import OPEN
from provisioning.lifecycle.evidence import APPLY
from provisioning.lifecycle.models import Lifecycle
from workspaces.models import Workspace


def open_apply(workspace: Workspace) -> str | None:
    """Refuse while an apply of the workspace runs, or its outcome is uncertain."""
    lifecycle = Lifecycle.objects.filter(workspace=workspace).first()
    if lifecycle is None or lifecycle.job_id is None:
        return None
    if not Step.objects.filter(OPEN, job_id=lifecycle.job_id, name=APPLY).exists():
        return None
    return (
        "Its infrastructure is being applied, or nobody knows how that ended: wait for job "
        f"{lifecycle.job_id}, or reconcile its step 'apply'."
    )
