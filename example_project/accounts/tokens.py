"""API tokens: a user goes in, a signed text comes out, and the other way round. Nothing is stored."""

from collections.abc import Callable
from functools import wraps

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core import signing
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

signer = signing.Signer(salt="accounts.tokens")


def token_for(user: AbstractBaseUser) -> str:
    """Return the token that a user's programs send."""
    return signer.sign(user.get_username())


def user_of(token: str) -> AbstractBaseUser | None:
    """Return the active user that a token belongs to, None for a token that nobody has."""
    try:
        username = signer.unsign(token)
    except signing.BadSignature:
        return None
    return get_user_model().objects.filter(username=username, is_active=True).first()


def token_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let requests with ``Authorization: Bearer <token>`` into a view, as the token's user; answer 401 to others."""

    # No CSRF check: unlike a cookie, a browser never sends a token by itself on another site's behalf.
    @csrf_exempt
    @wraps(view)
    def with_token(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        user = user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            answer = JsonResponse({"error": "send your token: Authorization: Bearer <token>"}, status=401)
            answer["WWW-Authenticate"] = "Bearer"
            return answer
        request.user = user
        return view(request, *args, **kwargs)

    return with_token
