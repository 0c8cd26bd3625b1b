"""The catalogues hold every text of the package, translated, and are compiled."""

from __future__ import annotations

import gettext
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.i18n.__main__ import LANGUAGES, PACKAGE
from tests.i18n.pseudo import messages, po

PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%%")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_keeps_its_placeholders(language):
    faults = []
    for message in messages(po(language)):
        english = [message.id] if isinstance(message.id, str) else list(message.id)
        strings = [message.string] if isinstance(message.string, str) else list(message.string)
        if message.fuzzy or not all(strings):
            faults.append(("untranslated", message.id))
            continue
        allowed = {name for text in english for name in PLACEHOLDER.findall(text)}
        for text in strings:
            names = set(PLACEHOLDER.findall(text))
            # A form for exactly one may leave its number out.
            if not names <= allowed or (allowed - names) - {"%(number)s", "%(counter)s"}:
                faults.append(("placeholders", message.id))
    assert faults == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_the_written_one(language):
    with po(language).with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for message in messages(po(language)):
        one, *others = [message.id] if isinstance(message.id, str) else message.id
        first = message.string if isinstance(message.string, str) else message.string[0]
        key = f"{message.context}\x04{one}" if message.context else one
        assert (compiled.ngettext(key, others[0], 1) if others else compiled.gettext(key)) == first


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="collecting texts needs the gettext tools")
def test_the_catalogues_hold_the_texts_of_the_package_and_no_others(tmp_path):
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "locale"))
    (package / "locale").mkdir()
    subprocess.run(
        [sys.executable, "-m", "django", "makemessages", "--locale", "de", "--no-wrap", "--verbosity", "0"],
        cwd=package,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        check=True,
    )
    collected = {(message.context, message.id) for message in messages(po("de", package))}
    for language in LANGUAGES:
        assert {(message.context, message.id) for message in messages(po(language))} == collected
