"""The form of the explain page: an operator's input goes in, an identifier for limiters comes out.

If the input describes a request, a made-up request is built, and its properties are computed like those of a real
request. Facts as JSON are values that code passes to the limiter. They override the properties. Nothing is counted.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ... import identifiers, rulesets
from ...engine.values import canonical
from ...exceptions import CallableFailed
from ...identifiers import registry
from ...runtime.language import localized
from ..ruleset_form.fields import ConditionsField

METHODS = registry.find("method").choices
# The fields that a link to the page may fill. A link with ASK is answered at once, because it changes nothing.
ASKABLE = ("limiter", "user", "ip", "path", "method")
ASK = "explain"
# The fields that describe a request.
OF_REQUEST = ("user", "ip", "path", "headers")


class AskingForm(forms.Form):
    """A limiter, and the request to explain."""

    limiter = forms.ChoiceField(label=gettext_lazy("Limiter"))
    user = forms.CharField(
        required=False,
        label=gettext_lazy("User"),
        help_text=gettext_lazy("Primary key or user name. Empty: not signed in."),
        max_length=200,
    )
    ip = forms.GenericIPAddressField(required=False, label=gettext_lazy("Address"))
    method = forms.ChoiceField(
        choices=[(method, method) for method in METHODS], required=False, label=gettext_lazy("Method")
    )
    path = forms.CharField(
        required=False,
        label=gettext_lazy("Path"),
        max_length=2000,
        help_text=gettext_lazy("With its query, if any: /search/?q=x"),
    )
    headers = forms.CharField(
        required=False,
        label=gettext_lazy("Headers"),
        widget=forms.Textarea(attrs={"rows": 2, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
        help_text=gettext_lazy("One header a line: X-Team: blue. Cookies are a header too."),
    )
    facts = ConditionsField(
        required=False,
        empty=dict,
        initial=dict,
        label=gettext_lazy("Facts (JSON)"),
        help_text=gettext_lazy(
            "Properties that code passes, or values you know:"
            ' <code>{"team": 7, "post.email": "a@example.org"}</code>.'
            " They override the values of the request. Without other input they are the whole identifier."
        ),
    )

    def __init__(self, *args: Any, limiters: list[str], host: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.host = host
        limiter: Any = self.fields["limiter"]
        limiter.choices = [(name, name) for name in limiters]

    def clean_user(self) -> Any:
        """Return the user, or None if the field is empty. Raises ValidationError if there is no such user."""
        text = self.cleaned_data["user"].strip()
        return _user(text) if text else None

    def clean_headers(self) -> dict[str, str]:
        """Return the headers by name. Raises ValidationError with the line that is not a header."""
        headers = {}
        for line in filter(None, map(str.strip, self.cleaned_data["headers"].splitlines())):
            name, colon, value = line.partition(":")
            if not colon or not name.strip() or " " in name.strip():
                raise ValidationError(
                    _("%(line)s is not a header. Write it as Name: value."), params={"line": repr(line[:80])}
                )
            headers[name.strip()] = value.strip()
        return headers

    def clean_facts(self) -> dict[str, Any]:
        """Return the facts. Raises ValidationError if they are not an identifier."""
        facts = self.cleaned_data["facts"]
        if not isinstance(facts, dict):
            raise ValidationError(_('Write a JSON object of properties and values: {"team": 7}.'))
        try:
            for name, value in facts.items():
                canonical(value, name)
        except TypeError as error:
            raise ValidationError(localized(error)) from error
        return facts

    def clean(self) -> dict[str, Any]:
        """Reject a form that describes neither a request nor an identifier."""
        data = super().clean() or {}
        if not self.errors and not any(data.get(name) for name in (*OF_REQUEST, "facts")):
            raise ValidationError(_("Describe the request: enter a user, an address, a path, a header, or facts."))
        return data

    def identifier(self) -> tuple[dict[str, Any], HttpRequest | None, list[str]]:
        """Return the identifier, the made-up request, and a message for each property that could not be computed.

        The request is None if the form contains only facts.
        """
        data, facts = self.cleaned_data, self.cleaned_data["facts"]
        if not any(data[name] for name in OF_REQUEST):
            return facts, None, []
        request = self._request()
        identifier = identifiers.build(request)
        properties: dict[str, Any] = {}
        problems = []
        # Include the address, because anonymous users are counted by it.
        for name in dict.fromkeys((*rulesets.get(data["limiter"]).properties, "user", "ip")):
            try:
                properties[name] = identifier.text(name)
            except (CallableFailed, TypeError) as error:
                problem = _("%(error)s. It is treated as missing here. Enter it as a fact.")
                problems.append(problem % {"error": localized(error)})
        if data["ip"]:
            properties["ip"] = data["ip"]
        # Leave out filtered properties of a fact, because they are computed from the fact.
        kept = {name: text for name, text in properties.items() if name.partition("|")[0] not in facts}
        return {**kept, **facts}, request, problems

    def _request(self) -> HttpRequest:
        data = self.cleaned_data
        path, _question_mark, query = data["path"].strip().partition("?")
        environ = {
            "REQUEST_METHOD": data["method"] or METHODS[0],
            "PATH_INFO": unquote_to_bytes("/" + path.lstrip("/")).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": self.host,
            "wsgi.url_scheme": "https",
            "wsgi.input": BytesIO(b""),
        }
        if data["ip"]:
            environ["REMOTE_ADDR"] = data["ip"]
        for name, value in data["headers"].items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        request: Any = WSGIRequest(environ)
        request.user = data["user"] or AnonymousUser()
        try:
            request.resolver_match = resolve(request.path_info)
        except Resolver404:
            request.resolver_match = None
        return request  # type: ignore[no-any-return]


def _user(text: str) -> Any:
    manager = get_user_model()._default_manager
    for lookup in ("pk", get_user_model().USERNAME_FIELD):
        try:
            return manager.get(**{lookup: text})
        except (get_user_model().DoesNotExist, ValueError, OverflowError, ValidationError):
            continue
    raise ValidationError(_("There is no user with this key or name."))
