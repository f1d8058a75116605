"""Firedoor's addresses, and a view as anybody would write it first: input checked, one row in.

It has no token, no rights, no key, no record of what it answered and no job behind it.
"""

from __future__ import annotations

from django.urls import path
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarks.models import Row
from config import urls


class NewRow(serializers.Serializer):
    order_id = serializers.CharField(max_length=100)
    cents = serializers.IntegerField()


class Bare(APIView):
    """`POST` inserts a row."""

    permission_classes = (AllowAny,)

    def post(self, request: Request) -> Response:
        """Insert, and say which row it is."""
        given = NewRow(data=request.data)
        given.is_valid(raise_exception=True)
        row = Row.objects.create(**given.validated_data)
        return Response({"id": row.pk, "order_id": row.order_id, "cents": row.cents}, 201)


urlpatterns = [path("bare/", Bare.as_view()), *urls.urlpatterns]
