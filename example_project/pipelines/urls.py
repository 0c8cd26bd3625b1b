"""The addresses of the pipelines API."""

from django.urls import path

from .views import create

urlpatterns = [path("<int:namespace>/pipelines/", create, name="pipelines")]
