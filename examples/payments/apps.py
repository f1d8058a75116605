from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "examples.payments"
    label = "payments"
