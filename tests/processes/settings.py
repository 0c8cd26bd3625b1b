"""Settings of a small site with several processes: the tests' settings, with a view and a database on disk."""

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.processes.urls"
