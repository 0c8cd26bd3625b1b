"""Base class of the pages that Django's admin does not have: address, permission, title and links.

A new page needs a subclass and a place in ``RulesetAdmin.pages``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from ...models import Ruleset
from .. import permissions
from ..links import MODEL, Link, Links

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django_stubs_ext import StrOrPromise


class AdminPage:
    """One page. A page that only shows something overrides ``context``. All other pages override ``respond``.

    ``name`` and ``route`` belong to its URL, which is below the list of rulesets. A user needs one of ``needs``, or
    the permission to view rulesets if it is empty. ``list_label`` labels the link on the list, and ``ruleset_label``
    the link on a ruleset's page. An empty label means no link.
    """

    name: ClassVar[str]
    route: ClassVar[str]
    title: ClassVar[StrOrPromise] = ""
    template: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    list_label: ClassVar[StrOrPromise] = ""
    ruleset_label: ClassVar[StrOrPromise] = ""

    def __init__(self, admin: ModelAdmin[Ruleset]) -> None:
        self.admin = admin
        self.links = Links(admin.admin_site.name)

    def path(self) -> URLPattern:
        """Return the route, for users who are signed in to the admin."""
        return path(self.route, self.admin.admin_site.admin_view(self.serve), name=f"{MODEL}_{self.name}")

    def serve(self, request: HttpRequest, **arguments: Any) -> HttpResponse:
        """Check the permission, then answer."""
        # Templates look up the links of the site that serves this request.
        request.current_app = self.admin.admin_site.name
        if not self.is_open_to(request):
            raise PermissionDenied(permissions.refusal(*self.needs))
        return self.respond(request, **arguments)

    def is_open_to(self, request: HttpRequest) -> bool:
        """Whether the user may open this page."""
        return permissions.may(request, *self.needs) if self.needs else self.admin.has_view_permission(request)

    def respond(self, request: HttpRequest, *_: Any, **arguments: Any) -> HttpResponse:
        """Return the answer to a user who may open this page."""
        return self.render(request, self.context(request, **arguments))

    def context(self, request: HttpRequest, *_: Any, **arguments: Any) -> dict[str, Any]:
        """Return the template's context. A ``title`` in it overrides the title of the class."""
        return {}

    def render(
        self, request: HttpRequest, context: dict[str, Any], *, template: str = "", status: int = 200
    ) -> HttpResponse:
        """Return the page with this context."""
        site = self.admin.admin_site.each_context(request)
        context = {**site, "opts": self.admin.opts, "title": self.title, **context}
        return TemplateResponse(request, template or self.template, context, status=status)

    def list_links(self) -> Iterator[Link]:
        """Yield the links to this page from the list of rulesets."""
        if self.list_label:
            yield Link(self.list_label, self.links.to(self.name))

    def ruleset_links(self, ruleset: Ruleset) -> Iterator[Link]:
        """Yield the links to this page from the page of a ruleset."""
        if self.ruleset_label:
            yield Link(self.ruleset_label, self.links.to(self.name, limiter=ruleset.name))

    def ruleset(self, request: HttpRequest, object_id: str) -> Ruleset:
        """Return the ruleset with this key. Raises Http404 for an unknown key."""
        ruleset = self.admin.get_object(request, object_id)
        if ruleset is None:
            raise Http404
        return ruleset
