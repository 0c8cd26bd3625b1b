"""Request bodies, read so that the view still can: as a form and as JSON.

A request goes in; its form fields or its JSON document come out, or None for a body that is malformed, too large or
already consumed by somebody else. Never raises for anything a client sends.
"""

from __future__ import annotations

import contextlib
import json

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, QueryDict, RawPostDataException
from django.http.multipartparser import MultiPartParserError

# Django's own bound on bodies in memory, unless a project sets another.
MAX_JSON = 2_621_440

# ValueError: a Content-Length that is no number, broken JSON or UTF-8. OSError: the client went away.
UNREADABLE = (
    BadRequest,
    LookupError,
    MultiPartParserError,
    OSError,
    RawPostDataException,
    RecursionError,
    SuspiciousOperation,
    ValueError,
)


def read_form(request: HttpRequest) -> QueryDict | None:
    """Return the fields of a form body: empty for other kinds of body, None when malformed."""
    if request.content_type == "multipart/form-data" and not hasattr(request, "_post"):
        # With the body in memory first, the view may still ask for it. One that is too large for that is parsed as it
        # streams in: the view could not have asked for its body either.
        with contextlib.suppress(*UNREADABLE):
            _ = request.body
    try:
        return request.POST
    except UNREADABLE:
        # Django leaves an empty form behind a multipart error; the view shall meet the error itself.
        for attribute in ("_post", "_files"):
            request.__dict__.pop(attribute, None)
        return None


def read_json(request: HttpRequest) -> object:
    """Return the JSON document of a body, whatever its content type claims: views often do not look at that either.

    None for one of more than 2.5 MiB, even where the project takes larger bodies: it would be parsed on every request.
    """
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_JSON or len(request.body) > MAX_JSON:
            return None
        document: object = json.loads(request.body)
    except UNREADABLE:
        return None
    return document
