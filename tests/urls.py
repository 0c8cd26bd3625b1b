"""The routes for all tests: the admin and the metrics. Tests of views have their own urlconfs."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("", include("django_prometheus.urls"))]
