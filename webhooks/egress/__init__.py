"""The one way out: which addresses may be reached, and one request that is bounded in all."""

from webhooks.egress.addresses import is_blocked
from webhooks.egress.sending import Limits, Reply, send
from webhooks.egress.urls import Target, UrlRefused, target_of, without_query

__all__ = [
    "Limits",
    "Reply",
    "Target",
    "UrlRefused",
    "is_blocked",
    "send",
    "target_of",
    "without_query",
]
