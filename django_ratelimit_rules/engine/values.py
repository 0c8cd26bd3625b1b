"""Canonical strings of identifier values.

Values of an application or a request go in, and one canonical string for each comes out. Matching and counter keys use
this string only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from hashlib import blake2b

from .messages import _

# Tuples of types for isinstance. A container has no single string to compare or count by.
_CONTAINERS = (Mapping, Sequence, Set, MappingView, Iterator)
_TEXTS = (str, bytes, bytearray, memoryview)

# The user property of a request without a signed-in user.
ANONYMOUS = "<anonymous>"

# Longer values are cut before they are matched, because a body may have megabytes.
MAX_TEXT = 8192
# The first character of Unicode's private use area. No client writes these characters, and no pattern matches them.
_PRIVATE = 0xE000


def canonical(value: object, name: str) -> str | None:
    """Return the canonical string of ``value``. True is ``1``, and a Django model instance is its primary key.

    Returns None for a missing value. Raises TypeError with the property's name for containers.
    """
    # Check the most frequent types first, because all checks below take longer than a counter's key.
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    # Use isinstance instead of "is None", because a lazy object may wrap None.
    if isinstance(value, type(None)):
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if _is_container(value):
        raise TypeError(
            _(
                "property %(name)s is a %(type)s: a value must be a string, a number, a boolean, None or a model "
                "instance, so that it can be compared and counted by",
                name=repr(name),
                type=type(value).__name__,
            )
        )
    if hasattr(value, "_meta") and hasattr(value, "pk"):
        return canonical(value.pk, name)
    if getattr(value, "is_anonymous", False) is True:
        # Django's AnonymousUser. Its string would be one user for all anonymous clients.
        return ANONYMOUS
    return str(value)


def bounded(text: str | None) -> str | None:
    """Return a string of at most 8,192 characters unchanged, and of a longer string the start and a digest.

    The digest is of the whole string, so that different strings stay different.
    """
    if text is None or len(text) <= MAX_TEXT:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return text[:MAX_TEXT] + "".join(chr(_PRIVATE + byte) for byte in digest)


def _is_container(value: object) -> bool:
    if isinstance(value, _TEXTS) or type(value).__name__ == "__proxy__":
        # __proxy__ is Django's lazy string, which has the methods of a string but is not an instance.
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
