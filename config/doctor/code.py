"""Is the code itself in order?"""

from __future__ import annotations

from django.core import checks

from config.doctor.answer import Answer, fail, ok
from config.doctor.check import check
from config.doctor.sight import Sight


@check("code.checks", command="manage.py check")
def system_checks(_sight: Sight) -> Answer:
    """Do kinds and settings pass their checks?

    A kind with a queue that does not exist, limits in the wrong order, a right that no role has:
    found here, before its first job.
    """
    errors = [found for found in checks.run_checks() if found.level >= checks.ERROR]
    if not errors:
        return ok("All system checks pass.")
    return fail(f"{len(errors)} system checks fail: {errors[0].msg}", [e.id for e in errors[:5]])
