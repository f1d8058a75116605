"""One module a queue: its app or its jobs, and what the driver asks of it (``benchmarks.client``).

Each has ``clear()``, ``enqueue(task, count)`` and ``finished()``, the number of jobs it has a
record of as done, or None where it keeps none.
"""
