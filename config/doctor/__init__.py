"""What ``manage.py worker_doctor`` asks, one question each, and what it makes of the answers.

Every question has a stable code, a bounded time, and a command that helps. The doctor changes
nothing, needs no worker to be alive, and says no secret.
"""
