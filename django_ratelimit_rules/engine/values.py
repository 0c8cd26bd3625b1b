"""Canonical texts of identifier values.

Values go in as an application or a request has them; one canonical text comes out, which is all that matching and
counter keys ever see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from hashlib import blake2b

# Tuples of types for isinstance: what holds other values has no one text that could be compared or counted by.
_CONTAINERS = (Mapping, Sequence, Set, MappingView, Iterator)
_TEXTS = (str, bytes, bytearray, memoryview)

# What a request's user property says of an anonymous user.
ANONYMOUS = "<anonymous>"

# What is longer is cut before it is matched: patterns meet what clients send, and a body may have megabytes.
MAX_TEXT = 8192
# Where the characters begin that nobody writes and no pattern looks for: Unicode's private use area.
_PRIVATE = 0xE000


def canonical(value: object, name: str) -> str | None:
    """Return the one text of ``value``: None is missing, True is ``1``, a Django model instance its primary key.

    Raises TypeError, naming the property, for containers.
    """
    # First what most values are: all the questions below take longer than a counter's key.
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    # By isinstance, because a lazy object that stands for None is not None itself.
    if isinstance(value, type(None)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if _is_container(value):
        raise TypeError(
            f"property {name!r} is a {type(value).__name__}: a value must be a single fact"
            " (text, number, boolean, None or a model instance), so that it can be compared and counted by"
        )
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        return canonical(value.pk, name)
    if getattr(value, "is_anonymous", False) is True:
        # Django's AnonymousUser: as text it would be one user for all anonymous clients.
        return ANONYMOUS
    return str(value)


def bounded(text: str | None) -> str | None:
    """Return a text, or the first 8,192 characters of a longer one and a digest of it all, so that two stay two."""
    if text is None or len(text) <= MAX_TEXT:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return text[:MAX_TEXT] + "".join(chr(_PRIVATE + byte) for byte in digest)


def _is_container(value: object) -> bool:
    if isinstance(value, _TEXTS) or type(value).__name__ == "__proxy__":
        # __proxy__ is Django's lazy text, which has all methods of one without being one.
        return False
    return isinstance(value, _CONTAINERS) or (hasattr(value, "__iter__") and hasattr(value, "__len__"))


def escape_surrogates(text: str) -> str:
    """Return a string with lone surrogates escaped, because no page or file can be encoded with them."""
    return text.encode("utf-8", "backslashreplace").decode()


def escape_unprintable(text: str) -> str:
    """Return a string with unprintable characters and lone surrogates escaped, so that no terminal obeys them."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )
