"""The routes every test may use: the admin and the metrics. Views under test have urlconfs of their own."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("", include("django_prometheus.urls"))]
