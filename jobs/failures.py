"""Which errors of the libraries in use mean what. The table that ``outcomes.classify`` reads.

Only what proves that a provider refused, or was never reached, says that nothing happened.
"""

from __future__ import annotations

import socket
import ssl
import subprocess

import httpx2
from django.db import DatabaseError, InterfaceError, OperationalError

from jobs.outcomes import Again, EffectSeen, classify_as
from jobs.transactions import TransactionOpen


def register() -> None:
    """Fill the table. Called once, when the app is ready."""
    retry, dead, no = Again.RETRY, Again.DEAD, EffectSeen.NO
    classify_as(ConnectionRefusedError, again=retry, effect=no, reason="connection_refused")
    classify_as(socket.gaierror, again=retry, effect=no, reason="dns_failed")
    classify_as(
        ssl.SSLCertVerificationError, again=dead, effect=no, reason="tls_certificate_refused"
    )
    classify_as(ConnectionError, ssl.SSLError, again=retry, reason="connection_lost")
    classify_as(TimeoutError, subprocess.TimeoutExpired, again=retry, reason="timeout")
    classify_as(OperationalError, InterfaceError, again=retry, reason="database_unavailable")
    classify_as(DatabaseError, again=dead, reason="database_refused")
    # Code that ends its process when it is called, such as a command line used as a library, is a
    # mistake that every later try would meet again.
    classify_as(SystemExit, again=dead, reason="exited")
    classify_as(TransactionOpen, again=dead, reason="transaction_open")
    classify_as(PermissionError, again=dead, reason="not_permitted")
    _register_httpx2()


def _register_httpx2() -> None:
    retry, dead, no = Again.RETRY, Again.DEAD, EffectSeen.NO
    classify_as(httpx2.TransportError, again=retry, reason="connection_lost")
    classify_as(httpx2.TimeoutException, again=retry, reason="timeout")
    classify_as(httpx2.ConnectError, again=retry, effect=no, reason="connection_refused")
    classify_as(httpx2.ConnectTimeout, again=retry, effect=no, reason="connect_timeout")
    classify_as(httpx2.PoolTimeout, again=retry, effect=no, reason="connect_timeout")
    classify_as(
        httpx2.UnsupportedProtocol, httpx2.InvalidURL, again=dead, effect=no, reason="bad_url"
    )
    classify_as(httpx2.TooManyRedirects, httpx2.DecodingError, again=dead, reason="bad_answer")
