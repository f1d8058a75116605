"""Whether a long past slows the present: claims and upkeep passes over few and many ended jobs.

Two databases of one server, asked in turn, so that what else the machine does is in both.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from benchmarks.stage import Stage

SIZES = {"small": 10_000, "large": 1_000_000}
CLAIMS, PASSES = 200, 20


def measure(
    stage: Stage, *, rounds: int, share: float, say: Callable[[str], None]
) -> dict[str, object]:
    """Median milliseconds over both pasts, and how many times longer over the large one."""
    clients = {name: stage.client(name) for name in SIZES}
    for name, client in clients.items():
        seconds = client.ask("fill", max(1, round(SIZES[name] * share)))[1]
        say(f"{name}: {SIZES[name] * share:,.0f} ended jobs made in {seconds:.0f} s")
    found: dict[str, dict[str, list[float]]] = {"claim": {}, "pass": {}}
    for number in range(rounds):
        for name in list(SIZES)[:: -1 if number % 2 else 1]:
            claims = clients[name].ask("claims", CLAIMS)[0]
            passes = clients[name].ask("passes", PASSES)[0]
            found["claim"].setdefault(name, []).extend(claims)
            found["pass"].setdefault(name, []).extend(passes)
            say(f"{name}: claim {median(claims):.3f} ms, pass {median(passes):.2f} ms")
    pruning = {name: clients[name].ask("pruning")[0] for name in SIZES}
    line: dict[str, object] = {}
    for what, by_name in found.items():
        small, large = median(by_name["small"]), median(by_name["large"])
        line |= {
            f"{what}_ms_small": round(small, 3),
            f"{what}_ms_large": round(large, 3),
            f"ratio_{what}": round(large / small, 3),
        }
    return line | {f"prune_ms_{name}": round(value, 1) for name, value in pruning.items()}
