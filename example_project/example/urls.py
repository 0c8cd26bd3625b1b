"""The addresses of the example site."""

from django.contrib import admin
from django.urls import include, path, re_path
from pages import views as pages

urlpatterns = [
    path("", pages.home, name="home"),
    path("search/", pages.search, name="search"),
    path("status/", pages.status, name="status"),
    path("accounts/", include("accounts.urls")),
    path("orgs/", include("pipelines.urls")),
    path("admin/", admin.site.urls),
    path("", include("django_prometheus.urls")),
    # The published pages, at the paths of the replayed traffic.
    path("blog/tags/<str:tag>", pages.tag, name="tag"),
    re_path(r"^(?P<path>(?:articles|blog|files|images|presentations|projects)/.*)$", pages.page, name="page"),
    re_path(r"^(?P<path>[^/]+\.(?:css|ico|txt|xml))$", pages.page, name="asset"),
]
