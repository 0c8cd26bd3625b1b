"""Serves the site on a port with several processes on one listening socket, like a live site."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from multiprocessing.connection import wait

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management import CommandError
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.db import connections

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine. Port 0 means any free port. Raises CommandError."""
    try:
        listener = socket.create_server((HOST, port), backlog=128)
    except OverflowError as error:
        raise CommandError(f"{port} is not a valid port. Use 0 to 65535.") from error
    except OSError as error:
        # Use only the reason, because OSError's own message repeats the address in a longer form.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"Port {port} is not free ({reason}). Choose another port: --port {port + 1}") from error
    # All processes wake up for a new connection, but only one gets it. The others must not block in accept().
    listener.settimeout(0.5)
    return listener


def serve(listener: socket.socket, processes: int) -> None:
    """Serve until a process ends or this process is interrupted, then stop all processes."""
    connections.close_all()
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_work, args=(listener,), daemon=True) for _ in range(processes)]
    try:
        for worker in workers:
            worker.start()
        wait([worker.sentinel for worker in workers])
    finally:
        for worker in workers:
            if worker.pid:
                worker.terminate()
                worker.join()


def _work(listener: socket.socket) -> None:
    # Ignore Ctrl-C, which a terminal sends to all processes, because the parent stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    SiteServer(listener).serve_forever()


class SiteServer(ThreadedWSGIServer):
    """Django's development server on a socket that already listens, with a thread for each connection."""

    daemon_threads = True

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener.getsockname(), WSGIRequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = listener.getsockname()
        self.setup_environ()
        self.set_app(StaticFilesHandler(get_wsgi_application()))
        self._parent = os.getppid()

    def service_actions(self) -> None:
        """End this process if the parent has ended, because nothing else would stop it."""
        super().service_actions()
        if os.getppid() != self._parent:
            os._exit(1)
