"""API tokens: signed usernames. No token is stored."""

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
    """Return the active user of a token. Returns None if the token is invalid or its user is not active."""
    try:
        username = signer.unsign(token)
    except signing.BadSignature:
        return None
    return get_user_model().objects.filter(username=username, is_active=True).first()


def token_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Call the view for requests with ``Authorization: Bearer <token>``, as the token's user. Others get a 401."""

    # Skip the CSRF check, because a browser never sends a token by itself, as it does with a cookie.
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
