"""Firedoor's settings, with one more address: the bare view is served by the same processes."""

from config.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.peers.web_urls"
