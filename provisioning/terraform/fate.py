"""What became of a run? Only what its records and this host's process table prove."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from provisioning.terraform import host, records


class Life(StrEnum):
    """How a run stands."""

    ABSENT = "absent"  # nothing started on record; a start may still come until it is sealed
    NEVER = "never"  # it cannot start any more, or the tool could not be executed
    RUNNING = "running"  # supervised; exit.json will come
    ORPHANED = "orphaned"  # the supervisor is gone, something of the run lives: no exit.json
    ENDED = "ended"  # exit.json is there; survivors may live on
    LOST = "lost"  # all processes are gone, and no exit code was recorded
    UNKNOWN = "unknown"  # started in another boot or pid namespace, or the record is broken


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of a run; `rc` only when it ended."""

    life: Life
    reason: str
    rc: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether waiting longer can tell nothing new."""
        return self.life is not Life.RUNNING


@dataclass(frozen=True, slots=True)
class Start:
    """Who was started where."""

    place: host.Place
    supervisor: host.Process
    marker: str


def look(run: Path) -> Fate:
    """Say what became of the run. Reads only; safe from any process at any time."""
    try:
        return _look(run)
    except (ValueError, KeyError, TypeError) as error:
        return Fate(Life.UNKNOWN, f"a record of the run is broken ({type(error).__name__})")


def start_of(run: Path) -> Start | None:
    """Return who was started; None when nobody was. Raises ValueError on a broken record."""
    record = records.read(run / records.START)
    return None if record is None or "sealed" in record else _start(record)


def seal(run: Path) -> bool:
    """Forbid a start that has not happened; True when from now on it never will.

    This is what makes "nothing happened" provable: a worker that was paused before it started
    the tool finds the run taken when it wakes up. False: a start is on record.
    """
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        records.write_new(run / records.START, {"sealed": True})
    except FileExistsError:
        return look(run).life is Life.NEVER
    return True


def group_is_empty(run: Path) -> bool | None:
    """Whether nothing that the run started lives on; None when this host cannot tell.

    A killed Terraform leaves living children, which finish their side effect seconds later.
    """
    try:
        start = start_of(run)
    except (ValueError, KeyError, TypeError):
        return None
    if start is None:
        return True if look(run).life is Life.NEVER else None
    if start.place != host.here():
        return None
    # With exit.json written the supervisor has nothing left to do, even if it still exits.
    may_start = host.is_alive(start.supervisor) and not (run / records.EXIT).exists()
    return not may_start and not _alive(start)


def _look(run: Path) -> Fate:
    record = records.read(run / records.START)
    if record is None:
        return Fate(Life.ABSENT, "no start is on record")
    if "sealed" in record:
        return Fate(Life.NEVER, "it was forbidden to start before it had started")
    ended = records.read(run / records.EXIT)
    if ended is not None:
        return _ended(ended)
    start = _start(record)
    if start.place != host.here():
        return Fate(Life.UNKNOWN, f"it was started on {start.place.host}, in another boot or pod")
    if host.is_alive(start.supervisor):
        return Fate(Life.RUNNING, "it is running under its supervisor")
    if _alive(start):
        return Fate(Life.ORPHANED, "its supervisor is gone, and something it started is alive")
    ended = records.read(run / records.EXIT)  # written between the first look and this one
    return _ended(ended) if ended is not None else Fate(Life.LOST, "it is gone without a record")


def _start(record: dict[str, Any]) -> Start:
    place, supervisor = host.Place(**record["place"]), host.Process(**record["supervisor"])
    return Start(place, supervisor, record["marker"])


def _ended(record: dict[str, Any]) -> Fate:
    if "not_started" in record:
        return Fate(Life.NEVER, f"the tool could not be executed: {record['not_started']}")
    code = int(record["rc"])
    return Fate(Life.ENDED, f"it ended with exit code {code}", code)


def _alive(start: Start) -> frozenset[int]:
    return host.members(start.supervisor, start.marker)
