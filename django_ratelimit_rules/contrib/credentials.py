"""The property ``auth``: the credential that an API framework accepted for a request.

The framework's ``request.auth`` goes in: a token, a key or a model instance. A keyed digest comes out, so that Redis
never holds the credential itself. It counts clients without a user. Conditions cannot use it.
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
    """Return the property ``auth``. It is missing without a credential, or if the credential has no string form.

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
