"""Do the machines agree on the time?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from django.db import connection

from config.doctor.answer import Answer, fail, ok, warn
from config.doctor.check import check
from config.doctor.sight import Sight

NOTICEABLE = 2.0
HARMFUL = 30.0


@check("clock.skew", needs="database.reachable", command="timedatectl status")
def skew(sight: Sight) -> Answer | None:
    """Do database, broker and this host agree on the time?

    The database's clock decides about leases, deadlines and retries, so a host that is off spoils
    none of them. But ``countdown`` is turned into a moment by the host that enqueues, log lines
    of several hosts fall out of order, and keys that providers remember "for 24 hours" are
    measured by their clocks. Run a time service (chrony, systemd-timesyncd) on every machine.
    """
    if connection.vendor != "postgresql":
        return None
    offsets = {"this host": -_offset(_database_time)}
    if "broker" in sight.__dict__:
        broker = _offset(lambda: _broker_time(sight))
        offsets["the broker"] = offsets["this host"] + broker
    return judged(offsets)


def judged(offsets: Mapping[str, float]) -> Answer:
    """Weigh how many seconds each clock is ahead of the database's."""
    name, seconds = max(offsets.items(), key=lambda item: abs(item[1]))
    if abs(seconds) < NOTICEABLE:
        return ok(f"All clocks agree within {NOTICEABLE:.0f} s.")
    direction = "ahead of" if seconds > 0 else "behind"
    sentence = f"The clock of {name} is {abs(seconds):.0f} s {direction} the database's."
    return (fail if abs(seconds) >= HARMFUL else warn)(sentence)


def _offset(ask: Callable[[], float]) -> float:
    """How far another clock is ahead of this host's, to within the time of one round trip."""
    before = time.time()
    there = ask()
    return there - (before + time.time()) / 2


def _database_time() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def _broker_time(sight: Sight) -> float:
    seconds, microseconds = sight.broker.time()
    return float(seconds + microseconds / 1e6)
