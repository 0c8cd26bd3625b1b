"""An organisation's pipelines API. A request must pass two limits: the organisation's and the user's."""

from uuid import uuid4

from accounts.tokens import token_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from django_ratelimit_rules import Limiter, Rule, rate_limited

# Only this view knows `namespace`. Register the property here, so that the admin offers it. The rule applies by
# default. A rule of the same name in the admin overrides it.
Limiter(
    "pipelines_create",
    properties=["namespace"],
    rules=[Rule("contract_limit", characteristics=["namespace"], limit=5000, period="1d", description="Per contract.")],
)


@token_required
@require_POST
@rate_limited("pipelines_create", identifier=lambda request, namespace: {"namespace": namespace})
def create(request: HttpRequest, namespace: int) -> HttpResponse:
    """Start a pipeline of an organisation."""
    pipeline = {"id": uuid4().hex, "namespace": namespace, "started_by": request.user.get_username()}
    return JsonResponse(pipeline, status=201)
