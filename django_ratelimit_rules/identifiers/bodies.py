"""Request bodies, parsed as a form or as JSON in such a way that the view can still read them.

A request goes in, its form fields or its JSON document come out. A body that is malformed, too large or already
consumed by other code gives None. No body that a client sends raises an exception.
"""

from __future__ import annotations

import contextlib
import json

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, QueryDict, RawPostDataException
from django.http.multipartparser import MultiPartParserError

# In bytes: Django's default for DATA_UPLOAD_MAX_MEMORY_SIZE.
MAX_JSON = 2_621_440

# ValueError: a Content-Length that is not a number, invalid JSON or UTF-8. OSError: the client disconnected.
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
    """Return the fields of a form body, or no fields for another kind of body. Returns None if it is malformed."""
    if request.content_type == "multipart/form-data" and not hasattr(request, "_post"):
        # Load the body into memory first, so that the view can still read it. A larger body is parsed as a stream,
        # because the view could not have read it from memory either.
        with contextlib.suppress(*UNREADABLE):
            _ = request.body
    try:
        return request.POST
    except UNREADABLE:
        # After a multipart error Django keeps an empty form. Remove it, so that the view gets the error itself.
        for attribute in ("_post", "_files"):
            request.__dict__.pop(attribute, None)
        return None


def read_json(request: HttpRequest) -> object:
    """Return the JSON document of a body. The content type does not matter, because views often ignore it as well.

    Returns None for more than 2.5 MiB, even if the project accepts larger bodies. The app would have to parse such a
    body on every request.
    """
    try:
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_JSON or len(request.body) > MAX_JSON:
            return None
        document: object = json.loads(request.body)
    except UNREADABLE:
        return None
    return document
