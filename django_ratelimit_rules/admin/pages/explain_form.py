"""Who is asked about on the explain page: what an operator types goes in, an identifier as limiters take it comes out.

With anything said of a request, one is made up and asked for its properties as a real one would be; facts as JSON are
what code passes along, and win. Nothing is counted here.
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

from ... import identifiers, rulesets
from ...engine.values import canonical
from ...exceptions import CallableFailed
from ...identifiers import registry
from ..ruleset_form.fields import ConditionsField

METHODS = registry.find("method").choices
# The fields that a link to the page may fill. With ASK it is answered at once, because looking changes nothing.
ASKABLE = ("limiter", "user", "ip", "path", "method")
ASK = "explain"
# What a made-up request is made of.
OF_REQUEST = ("user", "ip", "path", "headers")


class AskingForm(forms.Form):
    """A limiter, and who asks it."""

    limiter = forms.ChoiceField()
    user = forms.CharField(
        required=False, help_text="Primary key or user name. Empty: nobody is signed in.", max_length=200
    )
    ip = forms.GenericIPAddressField(required=False, label="Address")
    method = forms.ChoiceField(choices=[(method, method) for method in METHODS], required=False)
    path = forms.CharField(required=False, max_length=2000, help_text="With its query, if any: /search/?q=x")
    headers = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 80, "spellcheck": "false", "class": "ratelimit-json"}),
        help_text="One a line: X-Team: blue. Cookies are a header too.",
    )
    facts = ConditionsField(
        required=False,
        empty=dict,
        initial=dict,
        label="Facts (JSON)",
        help_text="Properties that code passes, or values you know: "
        '<code>{"team": 7, "post.email": "a@example.org"}</code>. '
        "They override the request's; alone, they are the whole identifier.",
    )

    def __init__(self, *args: Any, limiters: list[str], host: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.host = host
        limiter: Any = self.fields["limiter"]
        limiter.choices = [(name, name) for name in limiters]

    def clean_user(self) -> Any:
        """Return the user. Raises ValidationError where there is none."""
        text = self.cleaned_data["user"].strip()
        return _user(text) if text else None

    def clean_headers(self) -> dict[str, str]:
        """Return the headers by name. Raises ValidationError, naming the line."""
        found = {}
        for line in filter(None, map(str.strip, self.cleaned_data["headers"].splitlines())):
            name, colon, value = line.partition(":")
            if not colon or not name.strip() or " " in name.strip():
                raise ValidationError(
                    "%(line)s is not a header: write it as Name: value.", params={"line": repr(line[:80])}
                )
            found[name.strip()] = value.strip()
        return found

    def clean_facts(self) -> dict[str, Any]:
        """Return the facts. Raises ValidationError for what is no identifier."""
        facts = self.cleaned_data["facts"]
        if not isinstance(facts, dict):
            raise ValidationError('Write an object of property and value: {"team": 7}.')
        try:
            for name, value in facts.items():
                canonical(value, name)
        except TypeError as error:
            raise ValidationError(str(error)) from error
        return facts

    def clean(self) -> dict[str, Any]:
        """Refuse a question about nobody."""
        said = super().clean() or {}
        if not self.errors and not any(said.get(name) for name in (*OF_REQUEST, "facts")):
            raise ValidationError("Enter who is asking: a user, an address, a path, a header, or facts.")
        return said

    def identifier(self) -> tuple[dict[str, Any], HttpRequest | None, list[str]]:
        """Return the identifier, the request it was taken from, and what could not be computed of it."""
        said, facts = self.cleaned_data, self.cleaned_data["facts"]
        if not any(said[name] for name in OF_REQUEST):
            return facts, None, []
        request = self._request()
        told = identifiers.build(request)
        found: dict[str, Any] = {}
        lacking = []
        # The address as well: anonymous users are counted by it.
        for name in dict.fromkeys((*rulesets.get(said["limiter"]).properties, "user", "ip")):
            try:
                found[name] = told.text(name)
            except (CallableFailed, TypeError) as error:
                lacking.append(f"{error}. It is taken as missing here; say it as a fact.")
        if said["ip"]:
            found["ip"] = said["ip"]
        # A filtered property follows the fact it is made of.
        kept = {name: text for name, text in found.items() if name.partition("|")[0] not in facts}
        return {**kept, **facts}, request, lacking

    def _request(self) -> HttpRequest:
        said = self.cleaned_data
        path, _, query = said["path"].strip().partition("?")
        environ = {
            "REQUEST_METHOD": said["method"] or METHODS[0],
            "PATH_INFO": unquote_to_bytes("/" + path.lstrip("/")).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": self.host,
            "wsgi.url_scheme": "https",
            "wsgi.input": BytesIO(b""),
        }
        if said["ip"]:
            environ["REMOTE_ADDR"] = said["ip"]
        for name, value in said["headers"].items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        request: Any = WSGIRequest(environ)
        request.user = said["user"] or AnonymousUser()
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
    raise ValidationError("There is no user with this key or name.")
