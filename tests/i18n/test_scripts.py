"""The scripts of the ruleset page get their texts from the page, in its language."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.i18n import pseudo
from tests.i18n.__main__ import PACKAGE

ADDRESS = "/admin/django_ratelimit_rules/ruleset/add/"


def data_of_scripts(page: str) -> dict[str, Any]:
    """Return the JSON that a page contains for its scripts, by the ids of the elements."""
    blocks = re.findall(r'<script id="ratelimit-([\w-]+)" type="application/json">(.*?)</script>', page, re.DOTALL)
    return {name: json.loads(data) for name, data in blocks}


def shown_by_scripts(data: dict[str, Any]) -> list[str]:
    """Return the texts in this data that a person reads or hears. Names and values of properties are data."""
    hints = [row["hint"] for rows in data["vocabulary"].values() for row in rows if row["hint"]]
    labels = [label for row in data["operators"] for label in row["labels"]]
    return [*data["words"].values(), *hints, *labels]


def test_the_scripts_of_the_ruleset_page_get_every_text_in_the_active_language(admin_client, pseudo_language):
    page = admin_client.get(ADDRESS).content.decode()
    texts = shown_by_scripts(data_of_scripts(page))
    assert len(texts) > 80
    assert [text for text in texts if not re.fullmatch(f"{pseudo.OPEN}.*{pseudo.CLOSE}", text)] == []


def test_the_scripts_take_every_label_from_the_data_and_use_all_of_it(admin_client):
    words = data_of_scripts(admin_client.get(ADDRESS).content.decode())["words"]
    code = "".join(path.read_text() for path in (PACKAGE / "static/django_ratelimit_rules").glob("*.js"))
    code = re.sub(r"/\*.*?\*/|^ *//[^\n]*$", "", code, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"(?:title|label|placeholder|textContent)\"?(?: =|:) *[\"`][^\"`]+", code) == []
    # Scripts put together keys such as `move_${direction}`.
    templates = re.findall(r"words\(`([^`]+)`", code)
    patterns = [re.sub(r"\$\{\w+\}", "[a-z]+", template) for template in templates]
    unused = [key for key in words if f'"{key}"' not in code and not any(re.fullmatch(part, key) for part in patterns)]
    assert unused == []
