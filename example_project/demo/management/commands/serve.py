"""``manage.py serve``: serve the example site on a port of this machine, with several processes."""

import argparse

from accounts.tokens import signer
from django.core.management import BaseCommand, CommandError

from demo.people import ADMIN, COLLEAGUES
from demo.server import HOST, listen, serve
from demo.stopping import stoppable

ADDRESSES = """
The site runs in {processes} processes. Press Ctrl-C to stop everything.

  site     {site}
  admin    {site}admin/   sign in as {admin}, password {admin}
  metrics  {site}metrics

  curl -i '{site}search/?q=redis'
      shows the headers of the nearest limit: edit the limit in the admin, and repeat the request a second later
  curl -i -X POST -H 'Authorization: Bearer {token}' {site}orgs/7/pipelines/
      is counted by two limits: the organisation's and the user's
"""


class Command(BaseCommand):
    """Serve the site."""

    help = "Serve the example site on this machine."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--port`` and ``--processes``."""
        parser.add_argument("--port", type=int, default=8000, help="the port, 0 for any free one (default: 8000)")
        parser.add_argument("--processes", type=int, default=2, help="the number of processes (default: 2)")

    def handle(self, *, port: int, processes: int, **options: object) -> None:
        """Serve until stopped."""
        with listen(port) as listener, stoppable():
            site = f"http://{HOST}:{listener.getsockname()[1]}/"
            token = signer.sign(COLLEAGUES[0])
            self.stdout.write(ADDRESSES.format(processes=processes, site=site, admin=ADMIN, token=token))
            self.stdout.flush()
            serve(listener, processes)
            raise CommandError("A process of the site ended unexpectedly.")
