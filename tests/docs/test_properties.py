"""Properties of a request: the example of a provider works, and the table names the built-in ones."""

from __future__ import annotations

import re
from types import SimpleNamespace

from django.test import RequestFactory

from django_ratelimit_rules.identifiers import build, known_properties, registry
from tests.docs.pages import take, text_of
from tests.docs.running import define

(PLAN,) = take("docs/properties.md#your-own-properties")


def test_a_property_of_the_project_is_read():
    with registry.isolated():
        define(PLAN)
        request = RequestFactory().get("/")
        request.user = SimpleNamespace(profile=SimpleNamespace(plan="pro"))
        assert build(request).text("plan") == "pro"
        assert known_properties()["plan"].choices == ("free", "pro")


def test_the_table_names_the_built_in_properties_and_families():
    rows = re.findall(r"^\| (`.*?) \| ", text_of("docs/properties.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall("`(.*?)`", row)}
    families = {f"{name.partition('.')[0]}.*" for name in named if "." in name}
    assert {name for name in named if "." not in name} | families == {
        name
        for name, known in known_properties().items()
        if name not in registry.registry.properties and known.description
    }
