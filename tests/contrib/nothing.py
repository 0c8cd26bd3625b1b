"""A project without a view."""

urlpatterns: list[object] = []
