"""The base of every view of the API: who calls, in which workspace, and with what right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework.exceptions import NotAcceptable
from rest_framework.renderers import JSONRenderer
from rest_framework.views import APIView

from workspaces import audit
from workspaces.errors import FiredoorError
from workspaces.http import problems
from workspaces.http.authentication import SignedIn, TokenAuthentication
from workspaces.http.errors import LengthRequired
from workspaces.http.idempotency import HEADER, SAFE, key_of, well_formed_key
from workspaces.http.parsing import Sent, StrictJSONParser
from workspaces.http.schema import ApiSchema
from workspaces.permissions import require
from workspaces.visibility import visible_workspace

if TYPE_CHECKING:
    from rest_framework.request import Request

    from workspaces.actors import Actor
    from workspaces.models import Workspace


class ApiView(APIView):
    """A view for programs: bearer tokens, JSON, problems.

    `filters`, `takes` and `gives` are what the schema tells of its query, bodies and answers.
    """

    authentication_classes = (TokenAuthentication,)
    permission_classes = (SignedIn,)
    renderer_classes = (JSONRenderer,)
    parser_classes = (StrictJSONParser,)
    metadata_class = None
    schema = ApiSchema()
    filters: ClassVar[type | None] = None
    takes: ClassVar[dict[str, Any]] = {}
    gives: ClassVar[dict[str, dict[Any, Any]]] = {}
    actor: Actor
    key: str | None = None
    sent: Sent | None = None  # with a key: what its fingerprint is made of
    unacceptable: NotAcceptable | None = None

    def get_exception_handler(self) -> Any:
        return problems.handled

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:  # noqa: FBT001, FBT002
        """As ever; but what is kept under a key is repeated as it is, whatever is accepted now."""
        try:
            return super().perform_content_negotiation(request, force)
        except NotAcceptable as error:
            work = getattr(self, (request.method or "").lower(), None)
            if well_formed_key(request) is None or not hasattr(work, "idempotent"):
                raise
            self.unacceptable = error  # the work is refused with it
            return super().perform_content_negotiation(request, force=True)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if "HTTP_TRANSFER_ENCODING" in request.META and request.method not in SAFE:
            raise LengthRequired  # WSGI tells no end of such a body: it would be taken for none
        self.actor = request.user  # type: ignore[assignment]

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.setdefault("Cache-Control", "no-store")
        key = well_formed_key(request)
        if key is not None:
            answer[HEADER] = f'"{key}"'
        return answer

    @property
    def request_id(self) -> str:
        """The id of this request, which everything that it causes carries."""
        return self.request.headers["X-Request-ID"]

    @property
    def traceparent(self) -> str:
        """The caller's trace, or nothing."""
        return self.request.headers.get("traceparent", "")


class WorkspaceView(ApiView):
    """A view under `/workspaces/{slug}/`. A foreign workspace does not exist: 404.

    `rights` says what each method needs in the workspace; `permitted` may look closer. Both come
    before the Idempotency-Key is looked at: nobody is told again what they may no longer do.
    A deed that is refused is in the audit trail, whether by this view or by its service.
    """

    rights: ClassVar[dict[str, str]] = {}
    needs_key: ClassVar[bool] = False  # a deed that done twice would be two
    workspace: Workspace
    job_id: object = None  # set by work that made a job; kept with the answer
    told_once: dict[str, object] | None = None  # a secret: in the answer, not in what is kept of it

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.workspace = self._addressed(request, kwargs["slug"])
        method = "GET" if request.method == "HEAD" else request.method or ""
        if method in self.rights:
            require(self.actor, self.rights[method], self.workspace)
        self.permitted(request, **kwargs)
        self.key = key_of(request)

    def _addressed(self, request: Request, slug: str) -> Workspace:
        """The workspace in the address; where it is the account's own, it is known by now."""
        own: Workspace | None = request.auth.workspace  # type: ignore[union-attr]
        if own is not None and own.slug == slug:
            return own
        return visible_workspace(self.actor, slug)

    def permitted(self, request: Request, **kwargs: Any) -> None:
        """Raise what refuses this caller this object; by default nothing."""

    def deed(self, request: Request) -> str:
        """What the audit trail calls a POST that no service has named; else the right it needs."""
        return ""

    def without_secrets(self, reason: str) -> str:
        """A refused reason without what its object hides; the trail scrubs it besides."""
        return reason

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, FiredoorError):
            audit.record_refusal(exc, self.attempt(exc))
        return super().handle_exception(exc)

    def attempt(self, error: FiredoorError) -> audit.Attempt | None:
        """What was refused, if it is a deed and no service has said so: the address names it."""
        request: Request = self.request
        if request.method in SAFE or not hasattr(self, "workspace"):
            return None
        right = getattr(error, "right", "") or self.rights.get(request.method or "", "")
        ids = {name.removesuffix("_id"): i for name, i in self.kwargs.items() if name != "slug"}
        noun, number = next(iter(ids.items()), ("workspace", self.workspace.pk))
        return audit.Attempt(
            self.actor,
            self.deed(request) or right or f"{request.method} {request.path}"[:100],
            self.workspace.pk,
            noun,
            number,
            self.without_secrets(_reason_in(request)),
            self.request_id,
        )


def _reason_in(request: Request) -> str:
    """The reason that was given, if the body can be read at all."""
    try:
        given = request.data
    except Exception:  # noqa: BLE001  whatever is wrong with it has its own answer
        return ""
    reason = given.get("reason") if isinstance(given, dict) else None
    return reason if isinstance(reason, str) else ""
