"""``python -m benchmarks``: see docs/benchmarks.md.

Prints what it does and finds, and last of all one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import api, page, recovery, report, scale, webhooks, worker_memory
from benchmarks.compare import compare
from benchmarks.drain import WARM_UP
from benchmarks.stage import Stage, staged

Line = dict[str, object]


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and so stop what was started
    line: Line = {}
    with staged() as stage:
        say("\n".join(report.settings(stage)))
        for mode in options.modes or ["compare", "api"]:
            say(f"\n{mode}")
            line |= MODES[mode](stage, options)
            stage.end_peers()
    if options.page:
        told = [each for text in said for each in text.split("\n") if not each.startswith("round ")]
        options.page.write_text(page.written(options.page.read_text(), told, line))
    say("\n" + json.dumps(line))


said: list[str] = []


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    said.append(line)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("modes", nargs="*", metavar="mode", help=", ".join(MODES))
    parser.add_argument("--rounds", type=int, default=7, help="rounds, kills or looks")
    parser.add_argument("--share", type=float, default=1.0, help="scales the numbers of jobs")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="jobs before the count")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the figures into it")
    options = parser.parse_args()
    if unknown := set(options.modes) - set(MODES):
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; there is {', '.join(MODES)}")
    return options


def _compare(stage: Stage, options: argparse.Namespace) -> Line:
    found = compare(
        stage, rounds=options.rounds, share=options.share, warm_up=options.warm_up, say=say
    )
    say("\n" + "\n".join(report.table(found)))
    return found.line()


def _recovery(stage: Stage, options: argparse.Namespace) -> Line:
    return recovery.measure(stage, kills=options.rounds, say=say)


def _memory(stage: Stage, options: argparse.Namespace) -> Line:
    return worker_memory.measure(stage, share=options.share, say=say)


def _scale(stage: Stage, options: argparse.Namespace) -> Line:
    return scale.measure(stage, rounds=options.rounds, share=options.share, say=say)


def _api(stage: Stage, options: argparse.Namespace) -> Line:
    return api.measure(stage, rounds=options.rounds, share=options.share, say=say)


def _webhooks(stage: Stage, options: argparse.Namespace) -> Line:
    return webhooks.measure(stage, rounds=options.rounds, share=options.share, say=say)


MODES: dict[str, Callable[[Stage, argparse.Namespace], Line]] = {
    "compare": _compare,
    "recovery": _recovery,
    "memory": _memory,
    "scale": _scale,
    "api": _api,
    "webhooks": _webhooks,
}

if __name__ == "__main__":
    main()
