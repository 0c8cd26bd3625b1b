"""Collect the texts of the package into its catalogues, and compile them: ``python -m tests.i18n``.

Needs the gettext tools (xgettext, msgmerge, msgfmt).
"""

from __future__ import annotations

import os
from pathlib import Path

import django
from django.core.management import call_command

LANGUAGES = ("de", "es", "fr", "pt_BR")
PACKAGE = Path(__file__).resolve().parents[2] / "django_ratelimit_rules"


def main() -> None:
    """Update and compile the catalogues of all languages."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    os.chdir(PACKAGE)
    (PACKAGE / "locale").mkdir(exist_ok=True)
    call_command("makemessages", locale=LANGUAGES, no_wrap=True, add_location="file", no_obsolete=True)
    call_command("compilemessages", locale=LANGUAGES)


if __name__ == "__main__":
    main()
