"""A site before its migration: views with django-ratelimit, and an API with REST framework's throttles."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from django_ratelimit import UNSAFE
from django_ratelimit.decorators import ratelimit
from rest_framework.decorators import action, api_view, throttle_classes
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.throttling import (
    AnonRateThrottle,
    BaseThrottle,
    ScopedRateThrottle,
    SimpleRateThrottle,
    UserRateThrottle,
)
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from django_ratelimit_rules.contrib.rest_framework import RuleThrottle


@ratelimit(key="ip", rate="5/m")
def search(request):
    return HttpResponse("found")


@csrf_exempt
@ratelimit(key="ip", rate="100/h", method=UNSAFE)
@ratelimit(key="post:email", rate="10/30m", method="POST", block=False)
def sign_up(request):
    return HttpResponse("welcome")


@method_decorator(ratelimit(key="user_or_ip", rate="30/m"), name="dispatch")
class Reports(View):
    @method_decorator([ratelimit(key="header:x-team", rate="2/s"), csrf_exempt])
    def post(self, request):
        return HttpResponse("reported")


def by_plan(group, request):
    return "100/h"


def tenant(group, request):
    return request.headers.get("X-Tenant", "")


@ratelimit(key="user", rate=by_plan)
def export(request):
    return HttpResponse("exported")


@ratelimit(key=tenant, rate="7/d")
def tenants(request):
    return HttpResponse("tenants")


@ratelimit(group="mail", key="user", rate="3/m")
def send(request):
    return HttpResponse("sent")


@ratelimit(group="mail", key="user", rate="1/m")
def send_all(request):
    return HttpResponse("sent")


def unlimited(request):
    return HttpResponse("free")


class Burst(UserRateThrottle):
    scope = "burst"
    rate = "60/min"


class ByKey(SimpleRateThrottle):
    rate = "9/day"

    def get_cache_key(self, request, view):
        return request.headers.get("X-Key")


class Odd(BaseThrottle):
    def allow_request(self, request, view):
        return True


class Anon(AnonRateThrottle):
    rate = "20/hour"


class Scoped(ScopedRateThrottle):
    THROTTLE_RATES = {"uploads": "10/day", "nobody": None}


class Items(APIView):
    throttle_classes = [Anon, Burst]

    def get(self, request):
        return Response([])


class Uploads(ViewSet):
    throttle_classes = [Scoped]
    throttle_scope = "uploads"

    def list(self, request):
        return Response([])

    @action(detail=False, throttle_classes=[ByKey, Odd])
    def keyed(self, request):
        return Response([])


class Unscoped(APIView):
    throttle_classes = [Scoped]


class Moving(APIView):
    throttle_classes = [RuleThrottle]
    throttle_limiter = "moving"
    throttle_legacy = [Burst]


class Choosing(APIView):
    def get_throttles(self):
        return []


@api_view(["GET"])
@throttle_classes([Burst])
def latest(request):
    return Response([])


router = SimpleRouter()
router.register("uploads", Uploads, basename="uploads")

urlpatterns = [
    path("search/", search),
    path("find/", search),
    path("sign-up/", sign_up),
    path("reports/", Reports.as_view()),
    path("wrapped/", csrf_exempt(ratelimit(key="ip", rate="8/m")(Reports.as_view()))),
    path("more/", include([path("export/", export), path("tenants/", tenants)])),
    path("send/", send),
    path("send-all/", send_all),
    path("free/", unlimited),
    path(
        "api/", include([path("items/", Items.as_view()), path("latest/", latest), path("moving/", Moving.as_view())])
    ),
    path("api/", include([path("unscoped/", Unscoped.as_view()), path("choosing/", Choosing.as_view())])),
    path("api/", include(router.urls)),
]
