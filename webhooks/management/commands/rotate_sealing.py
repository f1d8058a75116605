"""`manage.py rotate_sealing`: seal everything again with the newest key, then drop the old one."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from webhooks.models import Endpoint, EndpointSecret
from webhooks.sealing import Unsealable, sealed_again


class Command(BaseCommand):
    """Safe to repeat and to interrupt: each row is sealed by one key or the other."""

    help = "Seal the secrets of webhooks again with the first key of WEBHOOK_SEALING_KEYS."

    def handle(self, **_options: Any) -> None:
        """Say how many were sealed; fail, naming them, if any cannot be opened."""
        done, lost = 0, []
        for model, column in ((EndpointSecret, "sealed"), (Endpoint, "headers")):
            for pk in model._default_manager.exclude(**{column: ""}).values_list("pk", flat=True):
                try:
                    self._one(model, pk, column)
                    done += 1
                except Unsealable:
                    lost.append(f"{model.__name__} {pk}")
        self.stdout.write(f"Sealed again: {done}.")
        if lost:
            raise CommandError(
                f"No key here opens {len(lost)}: {', '.join(lost[:20])}. "
                "Put the key back that sealed them, or rotate those endpoints' secrets."
            )

    def _one(self, model: Any, pk: Any, column: str) -> None:
        with transaction.atomic():
            rows = model._default_manager.filter(pk=pk)
            for row in rows.select_for_update(no_key=True):  # none where it was pruned just now
                rows.update(**{column: sealed_again(getattr(row, column))})
