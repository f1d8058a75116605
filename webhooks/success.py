"""A message that was taken, in the very statement that ends its job.

It writes what ``evidence.keep`` and ``endings.follow`` write in the usual way, which takes a dozen
round trips. Only where the endpoint is well: healing one is left to the usual way.
"""

from __future__ import annotations

import json

from jobs.fence import Along
from webhooks import evidence

_WELL = """EXISTS (SELECT 1 FROM webhooks_webhookdelivery d
  JOIN webhooks_endpoint e ON e.id = d.endpoint_id
  WHERE d.job_id = jobs_job.id AND d.status = 'open' AND e.state = 'active' AND e.failures = 0)"""
_WRITES = """kept AS (INSERT INTO webhooks_deliveryattempt (delivery_id, job_id, number, trigger,
  url, code, status_code, headers, excerpt, milliseconds)
SELECT @uuid(delivery), j.id, j.attempt, %(trigger)s, %(url)s, %(code)s,
  CAST(%(status_code)s AS integer), @json(headers), %(excerpt)s, CAST(%(milliseconds)s AS integer)
FROM j ON CONFLICT (job_id, number) DO NOTHING),
stamped AS (UPDATE webhooks_webhookdelivery d SET status = 'succeeded', finished_at = @now
FROM j WHERE d.job_id = j.id AND d.status = 'open' AND j.state = 'succeeded')"""
_FIELDS = ("url", "code", "status_code", "excerpt", "milliseconds")


def along(row: evidence.Brought) -> Along:
    """The delivery's success and what its request brought, for the statement that ends the job."""
    params = {
        **{name: getattr(row, name) for name in _FIELDS},
        "delivery": row.delivery_id,
        "trigger": str(row.trigger),
        "headers": json.dumps(row.headers),
    }
    return Along(_WELL, _WRITES, params, otherwise=lambda: evidence.keep(row))
