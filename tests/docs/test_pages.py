"""On each page of the manual, all code is run, all links have a target, and all names exist."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
import subprocess
from argparse import ArgumentParser
from collections.abc import Iterator

import pytest
from django.core.management import get_commands, load_command_class
from prometheus_client import REGISTRY

from django_ratelimit_rules import Limiter, Rule
from django_ratelimit_rules.conf import DEFAULTS, PREFIX
from django_ratelimit_rules.engine import FailureMode
from django_ratelimit_rules.monitoring import metrics
from django_ratelimit_rules.signals import ComparisonEvent, FailureEvent, NearLimitEvent
from django_ratelimit_rules.testing import override_ruleset
from tests import docs
from tests.docs.pages import PAGES, ROOT, blocks, headings, inline, links, taken, text_of

PLACES = sorted({block.place for page in PAGES for block in blocks(page)})
TRACKED = ("CHANGELOG.md", *PAGES)
MOST_LINES = 250


def test_the_readme_is_short():
    assert len(text_of("README.md").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("place", PLACES)
def test_the_code_of_a_place_is_taken_by_a_test(place):
    for module in pkgutil.iter_modules(docs.__path__):
        importlib.import_module(f"tests.docs.{module.name}")
    assert place in taken


@pytest.mark.parametrize("page", PAGES)
def test_python_is_python(page):
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text, block.place)


@pytest.mark.parametrize("page", TRACKED)
def test_a_link_leads_to_a_file_and_heading_that_there_are(page):
    here = (ROOT / page).parent
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (here / path).resolve() if path else ROOT / page
        assert target.is_file(), link
        if anchor:
            assert anchor in headings(str(target.relative_to(ROOT))), link


def commands(page: str) -> Iterator[str]:
    """Return the calls of manage.py in a page's code and text."""
    yield from (token.content for token in inline(page, "code_inline"))
    for block in blocks(page):
        if block.language in ("", "console"):
            yield from block.text.splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_a_command_that_is_named_exists_and_has_the_options(page):
    known = get_commands()
    for line in commands(page):
        words = shlex.split(line, comments=True) if "manage.py" in line.split(" ")[0:2] else []
        if not words or len(words) == 1:
            continue
        name, *arguments = words[words.index("manage.py") + 1 :]
        assert name in known, line
        command = load_command_class(known[name], name)
        parser: ArgumentParser = command.create_parser("manage.py", name)
        options = {option for action in parser._actions for option in action.option_strings}
        for argument in arguments:
            if argument.startswith("--"):
                assert argument.partition("=")[0] in options, line


@pytest.mark.parametrize("page", PAGES)
def test_a_setting_that_is_named_exists(page):
    named = set(re.findall(rf"\b{PREFIX}([A-Z0-9_]*[A-Z0-9])\b", text_of(page)))
    assert named <= DEFAULTS.keys()


def test_the_table_of_settings_lists_all_of_them():
    section = text_of("docs/settings.md").partition("\n## ")[0]
    named = re.findall(r"^\| (`[A-Z_0-9`, ]+`) \|", section, re.MULTILINE)
    assert {name for cell in named for name in re.findall("[A-Z_0-9]+", cell)} == DEFAULTS.keys()


def test_the_table_of_metrics_lists_all_of_them_with_their_labels():
    section = text_of("docs/monitoring.md").partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`django_rate_limiter_.*?) \| `(.*?)` \|", section, re.MULTILINE)
    said = {
        name.replace("…", "django_rate_limiter").removesuffix("_total"): tuple(labels.split(", "))
        for cell, labels in rows
        for name in re.findall("`(.*?)`", cell)
    }
    rule = Rule("one", limit=1, period=60)
    with override_ruleset("documented", [rule]):
        result = Limiter("documented").check({})
        metrics.count_error(FailureEvent("documented", OSError(), FailureMode.OPEN))
        metrics.count_near(NearLimitEvent("documented", rule, 1, 1, "key"))
        metrics.count_comparison(ComparisonEvent("documented", result, False, "match", False))
        shown = _labels_of_metrics()
    assert said.keys() == shown.keys()
    assert all(shown.values())
    assert [name for name, found in shown.items() if found - {said[name], (*said[name], "le")}] == []


def _labels_of_metrics() -> dict[str, set[tuple[str, ...]]]:
    return {
        metric.name: {tuple(sample.labels) for sample in metric.samples}
        for metric in REGISTRY.collect()
        if metric.name.startswith("django_rate_limiter_")
    }


def test_a_benchmark_that_is_named_exists():
    for page in PAGES:
        for token in inline(page, "code_inline"):
            if found := re.fullmatch(r"python -m (tests\.[a-z_.]+)", token.content.split("=")[-1].strip("0123456789 ")):
                assert importlib.util.find_spec(found[1]), token.content


def test_no_file_of_the_manual_is_left_out_of_version_control():
    listed = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout:
        pytest.skip("no Git checkout")
    assert {page for page in PAGES if page.startswith("docs/")} <= set(listed.stdout.splitlines())
