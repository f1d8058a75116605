"""What authors of kinds test with: real rows and real moves, no waiting, no worker process.

Needs a database with transactions (``django_db(transaction=True)`` or ``TransactionTestCase``),
and no pytest.

    with crash_at(charge_card, "during"):      # the process dies, its lease is reaped
        charge.s(order_id="o-42", cents=4200).enqueue(workspace=ws, key="order-42")
        drain()
    drain()                                    # and the job goes on
"""

from jobs.testing.conformance import Scenario, assert_conformant, scenarios
from jobs.testing.points import Died, Moment, When, at_step, crash_at
from jobs.testing.running import attempt, drain, leave_for_dead, lose_lease

__all__ = [
    "Died",
    "Moment",
    "Scenario",
    "When",
    "assert_conformant",
    "at_step",
    "attempt",
    "crash_at",
    "drain",
    "leave_for_dead",
    "lose_lease",
    "scenarios",
]
