"""The story that ``manage.py demo`` tells, with real jobs on this machine."""
