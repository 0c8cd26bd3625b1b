"""Runs the code of pages: Python that defines views, and shell lines, with the tests' own ``manage.py``."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, path


def define(*sources: str, **names: Any) -> dict[str, Any]:
    """Return the names that examples define, in order. A body that a page omits returns a response, or does nothing."""
    known: dict[str, Any] = {"__name__": "manual", "HttpResponse": HttpResponse, **names}
    for source in sources:
        source = source.replace("request): ...", "request): return HttpResponse()")
        source = source.replace("request, team): ...", "request, team): return HttpResponse()")
        exec(compile(source, "manual", "exec"), known)
    return known


def serve(settings: Any, *patterns: URLPattern, **views: Any) -> Client:
    """Return a client of a site with these URLs, and each view at its name. ``settings`` is the fixture."""
    urls = [*patterns, *(path(f"{name}/", view) for name, view in views.items())]
    settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": urls})
    return Client()


class Ran(NamedTuple):
    """The exit status and the output of a shell line."""

    status: int
    said: str


def shell(lines: str, folder: Path) -> list[Ran]:
    """Run lines in a folder, ``manage.py`` in this process and the rest by a shell. Return the result of each line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return [_run(line, folder) for line in lines.splitlines()]


def _run(line: str, folder: Path) -> Ran:
    words = shlex.split(line, comments=True)
    if words[0] != "manage.py":
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        return Ran(done.returncode, done.stdout + done.stderr)
    *words, file = [word for word in words if word != ">"] if ">" in words else [*words, ""]
    out, status = StringIO(), 0
    try:
        with redirect_stdout(out):
            call_command(*words[1:], stdout=out)
    except SystemExit as end:
        status = int(str(end.code))
    if file:
        (folder / file).write_text(out.getvalue())
    return Ran(status, out.getvalue())
