"""Properties: one row for each built-in property, the spelling of their names, and the filters after ``|``.

A row states facts only. The readers, which need a request, are in the room ``identifiers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .messages import _, gettext_noop


@dataclass(frozen=True, slots=True)
class Property:
    """A property that rules can use. A name that ends in ``.*`` is a family, whose members a client may not send.

    ``description`` is a message. ``choices`` are all its values, empty for any. ``cheap``: read straight from the
    request, so conditions on it are evaluated first. ``shared``: strangers have the same value, so a limit by it alone
    blocks bystanders. ``of_user``: its reader gets the user. ``of_client``: all requests of one client have the same
    value. ``recorded``: recorded traffic has it, used by a rule or not. ``client_written``: the client chooses the
    value freely. ``unlogged`` is its value for a request of an access log, for a property that no log can show.
    ``public`` is the template of its name in published limits, with ``{}`` for the rest of a family's name.
    """

    name: str
    description: str = ""
    choices: tuple[str, ...] = ()
    cheap: bool = False
    shared: bool = False
    of_user: bool = False
    of_client: bool = False
    recorded: bool = False
    client_written: bool = False
    unlogged: str | None = None
    public: str = ""

    @property
    def is_family(self) -> bool:
        """Whether this is the row of a family."""
        return self.name.endswith(".*")


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_YES_NO = ("1", "0")
PROPERTIES = {
    row.name: row
    for row in (
        Property(
            "ip",
            _("Client address, as trusted proxies report it"),
            cheap=True,
            of_client=True,
            recorded=True,
            public=gettext_noop("client address"),
        ),
        Property(
            "user",
            _("Primary key of the signed-in user, or <anonymous>"),
            of_user=True,
            of_client=True,
            public=gettext_noop("user (anonymous clients: client address)"),
        ),
        Property(
            "method", _("HTTP method, where HEAD counts as GET"), _METHODS, cheap=True, shared=True, recorded=True
        ),
        Property("path", _("Path of the URL, without the query"), cheap=True, shared=True, recorded=True),
        Property("route", _("Name of the URL pattern, with its namespace"), cheap=True, shared=True, recorded=True),
        Property("view", _("Dotted path of the view function or class"), cheap=True, shared=True),
        Property("host", _("Host name the client asked for, without the port"), cheap=True, shared=True, recorded=True),
        Property(
            "is_authenticated",
            _("Whether a user is signed in"),
            _YES_NO,
            shared=True,
            of_user=True,
            of_client=True,
            public=gettext_noop("whether signed in"),
        ),
        Property(
            "is_staff", _("Whether the user may enter the admin"), _YES_NO, shared=True, of_user=True, of_client=True
        ),
        # A log shows neither the secret nor the headers of a preflight.
        Property(
            "bypass",
            _("Whether the request carries the bypass header's secret"),
            _YES_NO,
            cheap=True,
            shared=True,
            unlogged="0",
        ),
        Property(
            "preflight",
            _("Whether a browser asks for permission to send a cross-origin request"),
            _YES_NO,
            cheap=True,
            shared=True,
            unlogged="0",
        ),
        Property(
            "header.*",
            _("A request header: header.x-team"),
            cheap=True,
            client_written=True,
            public=gettext_noop("`{}` header"),
        ),
        Property(
            "query.*",
            _("A parameter of the URL: query.q"),
            cheap=True,
            client_written=True,
            public=gettext_noop("`{}` parameter"),
        ),
        Property(
            "cookie.*",
            _("A cookie: cookie.sessionid"),
            cheap=True,
            client_written=True,
            public=gettext_noop("`{}` cookie"),
        ),
        Property(
            "post.*", _("A field of a form body: post.email"), client_written=True, public=gettext_noop("`{}` field")
        ),
        Property(
            "json.*",
            _("A value in a JSON body, nested by dots: json.user.email"),
            client_written=True,
            public=gettext_noop("`{}` value"),
        ),
        Property(
            "kwarg.*",
            _("A keyword argument of the URL pattern: kwarg.pk"),
            cheap=True,
            public=gettext_noop("`{}` of the URL"),
        ),
    )
}
# A property of the project: its provider may read the body, load the session or query the database.
UNKNOWN = Property("")

FILTERS: dict[str, Callable[[str], str]] = {"lower": str.lower, "strip": str.strip, "upper": str.upper}

MAX_NAME = 200


def normalise(name: object) -> str:
    """Return a property's name in its canonical spelling: header names in lower case with hyphens, filters without
    blanks.

    Raises TypeError for a value that is not a string. Raises ValueError for an empty name, a name over 200 characters,
    a name with control characters, or an unknown filter.
    """
    if not isinstance(name, str):
        raise TypeError(_("a property's name must be a string, not %(type)s", type=type(name).__name__))
    base, *filters = [part.strip() for part in name.split("|")]
    if not base or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(
            _(
                "%(name)r is not a property name: it has 1 to %(most)s printable characters",
                name=name[:MAX_NAME],
                most=MAX_NAME,
            )
        )
    for filter_name in filters:
        if filter_name not in FILTERS:
            raise ValueError(
                _(
                    "property %(name)r: unknown filter %(filter)r, use one of %(known)s",
                    name=name,
                    filter=filter_name,
                    known=", ".join(sorted(FILTERS)),
                )
            )
    if base[:7].lower() == "header.":
        # HTTP header names have no case, and WSGI servers cannot tell "-" from "_".
        base = base.lower().replace("_", "-")
    return "|".join([base, *filters])


def base_of(name: str) -> str:
    """Return the property that ``name``'s filters work on."""
    return name.partition("|")[0]


def split(name: str) -> tuple[str, str]:
    """Return the row's name and the rest of a name without filters: ``("header.*", "x-team")``, ``("ip", "")``."""
    family, dot, rest = name.partition(".")
    row = family + ".*"
    return (row, rest) if dot and row in PROPERTIES else (name, "")


def facts_of(name: str) -> Property:
    """Return the row of a property, whatever filters follow, or ``UNKNOWN`` for a property of the project."""
    return PROPERTIES.get(split(base_of(name))[0], UNKNOWN)


def is_client_written(name: str) -> bool:
    """Return whether a client chose this property's value freely: headers, cookies, query and body."""
    return facts_of(name).client_written


def apply_filters(name: str, value: str | None) -> str | None:
    """Return the base property's ``value`` after all filters of ``name``, from left to right."""
    if value is not None:
        for filter_name in name.split("|")[1:]:
            value = FILTERS[filter_name](value)
    return value
