#!/usr/bin/env python
"""Django's command line for the example site. ``manage.py demo`` shows everything at once."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run one management command. Ctrl-C ends it without a traceback."""
    # Use the app of this checkout, even if another version of it is installed.
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
    # Don't use setdefault: the environment may name the settings of another site.
    os.environ["DJANGO_SETTINGS_MODULE"] = "example.settings"
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
