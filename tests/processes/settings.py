"""Settings of a small site that several processes serve: those of the tests, with a view and a database on disk."""

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.processes.urls"
