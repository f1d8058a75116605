"""Run a command that is asked to stop when whoever started it is gone, however it went.

``leash.py PARENT COMMAND…`` as a script of its own: the kernel's wish is made in the very process
that becomes the command, before it does. What gets SIGTERM so stops as it always does: a worker at
the next step of its jobs.
*Hole:* Linux only; elsewhere the command outlives a parent that was killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Become ``command``; end at once if the parent is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
