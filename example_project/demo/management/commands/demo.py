"""``manage.py demo``: start a store, create a database and rules, replay real traffic, then serve the site.

Run each step as a command in its own process, because Django's settings and the metrics read the environment at start.
The store's address is not known before. All data is in a temporary directory.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from store import StoreUnavailable, running_store

from demo.server import listen
from demo.stopping import stoppable

MANAGE = settings.BASE_DIR / "manage.py"


class Command(BaseCommand):
    """Show everything at once."""

    help = "Start a store, prepare the site, replay real traffic, show the rules' decisions, then serve the site."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--no-serve``, ``--port`` and ``--requests``."""
        parser.add_argument("--no-serve", dest="serve", action="store_false", help="stop after the table")
        parser.add_argument(
            "--port", type=int, default=8000, help="the site's port, 0 for any free one (default: 8000)"
        )
        parser.add_argument("--requests", type=int, metavar="N", help="replay only the first N requests of the log")

    def handle(self, *, serve: bool, port: int, requests: int | None, **options: object) -> None:
        """Run all steps with one store."""
        if serve:
            # Fail now, not after the replay, if the port is in use.
            listen(port).close()
        try:
            with (
                stoppable(),
                TemporaryDirectory(prefix="ratelimit-demo-") as directory,
                running_store(Path(directory)) as url,
            ):
                self.steps(Path(directory), url, serve, port, requests)
        except StoreUnavailable as error:
            raise CommandError(str(error)) from error

    def steps(self, directory: Path, url: str, serve: bool, port: int, requests: int | None) -> None:
        """Run the steps. The site's processes share their metrics through the directory."""
        metrics = directory / "metrics"
        metrics.mkdir()
        environ = {
            **os.environ,
            "REDIS_URL": url,
            "EXAMPLE_DATA": str(directory),
            "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        }
        self.stdout.write(f"Store ready: {url}")
        self.stdout.flush()
        self.run("prepare", environ=environ)
        self.run("replay", *([] if requests is None else [f"--requests={requests}"]), environ=environ)
        if serve:
            self.run("serve", f"--port={port}", environ=environ)

    def run(self, command: str, *arguments: str, environ: dict[str, str]) -> None:
        """Run one command of the site to its end. Raises CommandError if it fails."""
        process = subprocess.Popen([sys.executable, str(MANAGE), command, *arguments], env=environ)
        try:
            status = process.wait()
        finally:
            # Stop the command, because only Ctrl-C in a terminal reaches it, not a kill of this process.
            process.terminate()
            process.wait()
        if status:
            raise CommandError(f"The step `{command}` failed.")
