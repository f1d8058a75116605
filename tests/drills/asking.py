"""A kind that asks a provider over HTTP, which may say "later"."""

from __future__ import annotations

import httpx2

from jobs.kinds import Run, job_kind, step


@step("ask")
def ask(url: str) -> int:
    answer = httpx2.get(url, trust_env=False, timeout=10)
    return answer.raise_for_status().status_code


def account_at(*, url: str) -> str:
    return f"account at {url}"


@job_kind("drills.asks", steps=(ask,), throttle=account_at, max_retries=0)
def asks(run: Run, *, url: str) -> int:
    return run(ask, url)
