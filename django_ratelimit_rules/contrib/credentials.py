"""The property ``auth``: the credential by which an API framework let a request in.

What the framework keeps as ``request.auth`` goes in (a token, a key, a model instance), a keyed digest comes out: the
credential itself never stands in Redis. It counts clients that have no user; conditions have no use for it.
"""

from __future__ import annotations

from hashlib import blake2b

from ..conf import settings
from ..engine.values import canonical
from ..identifiers import declare
from ..identifiers.registry import provider_of

AUTH = "auth"
declare(AUTH, public="API credential")


def facts_of(auth: object) -> dict[str, object]:
    """Return the property ``auth``, missing when there is no credential or one without a text of its own.

    A project that registered a property of this name keeps its own.
    """
    return {} if provider_of(AUTH) else {AUTH: _digest(auth)}


def _digest(auth: object) -> str | None:
    try:
        text = canonical(auth, AUTH)
    except TypeError:
        return None
    if not text:
        return None
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15, key=settings.secret).hexdigest()
