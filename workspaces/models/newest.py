"""The order of lists that a workspace reads, newest first, as the planner cannot get it wrong."""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.db.models.expressions import OrderBy
from django.db.models.indexes import IndexExpression
from django.utils.deconstruct import deconstructible


@deconstructible(path="workspaces.models.newest.NewestFirst")
class NewestFirst(OrderBy):
    """`id DESC NULLS LAST`, both of an index behind `workspace` and of the lists it is for.

    For a plain `id DESC LIMIT n` PostgreSQL likes to walk the primary key instead, past the rows
    of all other workspaces: by its statistics a workspace's rows are spread evenly, so that few
    are passed. Of a workspace that has been quiet for a while they are many. The primary key
    does not have this order, though no id is null, and so is no candidate.
    """

    def __init__(self, field: str = "id") -> None:
        super().__init__(F(field), descending=True, nulls_last=True)

    def as_sqlite(self, compiler: Any, connection: Any) -> Any:
        """Leave out what no index of SQLite can be told; it is the order there anyway."""
        plain = OrderBy(self.expression, descending=True)
        return plain.as_sql(compiler, connection)


IndexExpression.register_wrappers(*IndexExpression.wrapper_classes, NewestFirst)
