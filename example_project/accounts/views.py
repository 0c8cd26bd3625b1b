"""Signing in."""

from django.contrib.auth.views import LoginView
from django.utils.decorators import method_decorator

from django_ratelimit_rules import rate_limited


@method_decorator(rate_limited("login", methods=["POST"]), name="dispatch")
class SignIn(LoginView):
    """Django's own sign-in. Looks at the form are not checked; of attempts, the rules count the failed ones."""

    template_name = "accounts/sign_in.html"
