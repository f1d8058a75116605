"""A process that does for one peer what its users' processes do: enqueue.

It reads ``verb words…`` from standard input, one a line, and answers each with a line of JSON,
``[answer, seconds]``. Its own start-up is in no figure.
"""

import importlib
import json
import sys
import time


def main(peer: str) -> None:
    """Serve the peer's module until the input ends."""
    module = importlib.import_module(f"benchmarks.peers.{peer}")
    for line in sys.stdin:
        verb, *words = json.loads(line)
        begun = time.perf_counter()
        answer = getattr(module, verb)(*words)
        seconds = time.perf_counter() - begun
        sys.stdout.write(json.dumps([answer, seconds]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
