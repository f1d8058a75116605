#!/usr/bin/env python
"""Runs Firedoor's commands: ``python manage.py help`` lists them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from config.command_line import run  # it imports what reads the settings

    run(sys.argv)


if __name__ == "__main__":
    main()
