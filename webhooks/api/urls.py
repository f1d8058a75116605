"""Addresses under `/api/v1/workspaces/{slug}/`: of endpoints, and of deliveries."""

from django.urls import include, path

from webhooks.api.deliveries import DeliveryDetail, DeliveryList, Redeliver
from webhooks.api.endpoints import (
    DisableEndpoint,
    EnableEndpoint,
    EndpointDetail,
    EndpointList,
    RecoverEndpoint,
    RotateSecret,
    TestEndpoint,
)

_ONE = "<uuid:endpoint_id>/"
endpoints = [
    path("", EndpointList.as_view(), name="api-webhook-endpoints"),
    path(_ONE, EndpointDetail.as_view(), name="api-webhook-endpoint"),
    path(f"{_ONE}secret/rotate/", RotateSecret.as_view(), name="api-webhook-endpoint-rotate"),
    path(f"{_ONE}enable/", EnableEndpoint.as_view(), name="api-webhook-endpoint-enable"),
    path(f"{_ONE}disable/", DisableEndpoint.as_view(), name="api-webhook-endpoint-disable"),
    path(f"{_ONE}test/", TestEndpoint.as_view(), name="api-webhook-endpoint-test"),
    path(f"{_ONE}recover/", RecoverEndpoint.as_view(), name="api-webhook-endpoint-recover"),
]
deliveries = [
    path("", DeliveryList.as_view(), name="api-webhook-deliveries"),
    path("<uuid:delivery_id>/", DeliveryDetail.as_view(), name="api-webhook-delivery"),
    path("<uuid:delivery_id>/redeliver/", Redeliver.as_view(), name="api-webhook-redeliver"),
]
urlpatterns = [
    path("webhook-endpoints/", include(endpoints)),
    path("webhook-deliveries/", include(deliveries)),
]
