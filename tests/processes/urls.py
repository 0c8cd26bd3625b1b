"""A limited view, sync and async, a view of the process's state, and the metrics."""

import os
import threading

from django.http import HttpResponse, JsonResponse
from django.urls import include, path

from django_ratelimit_rules import Limiter, Rule, rate_limited
from tests.processes import LIMIT

shared = Limiter("shared", rules=[Rule("all", limit=LIMIT, period=3600)])
# Check during the import, as a project may, which is before a parent forks.
early = Limiter("early", rules=[Rule("all", limit=10**6, period=3600)])


@rate_limited(shared)
def view(request):
    return HttpResponse("fine")


@rate_limited(shared)
async def async_view(request):
    return HttpResponse("fine")


def process(request):
    return JsonResponse({"pid": os.getpid(), "threads": [thread.name for thread in threading.enumerate()]})


urlpatterns = [
    path("wsgi/", view),
    path("asgi/", async_view),
    path("process/", process),
    path("", include("django_prometheus.urls")),
]
