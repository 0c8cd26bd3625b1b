"""The addresses of sign-in and sign-out."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from .views import SignIn

urlpatterns = [
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
