"""Signing in."""

from django.contrib.auth.views import LoginView
from django.utils.decorators import method_decorator

from django_ratelimit_rules import rate_limited


@method_decorator(rate_limited("login", methods=["POST"]), name="dispatch")
class SignIn(LoginView):
    """Django's own sign-in. Only attempts are counted, not looks at the form."""

    template_name = "accounts/sign_in.html"
