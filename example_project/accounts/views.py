"""The sign-in view."""

from django.contrib.auth.views import LoginView
from django.utils.decorators import method_decorator

from django_ratelimit_rules import rate_limited


@method_decorator(rate_limited("login", methods=["POST"]), name="dispatch")
class SignIn(LoginView):
    """Django's own sign-in. GET requests are not checked. The rules count only failed attempts."""

    template_name = "accounts/sign_in.html"
