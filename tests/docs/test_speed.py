"""The benchmark commands: their extras and groups exist, and they print a table."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from tests.docs.pages import ROOT, take

(COMMANDS,) = take("docs/speed.md#speed")


def test_the_benchmarks_run_and_have_the_groups_that_are_named():
    install, run = COMMANDS.splitlines()
    extras = set(re.findall(r"\[(.*)\]", install)[0].split(","))
    assert extras <= tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    command, groups = run.split("# or some groups of rows: ")
    python, *arguments = command.split()
    assert python == "python"
    help_of = [sys.executable, *arguments, "--help"]
    said = subprocess.run(help_of, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ", ".join(groups.split()) in " ".join(said.split())
    short = [sys.executable, *arguments, "--alone", "--seconds", "0.1", "check"]
    done = subprocess.run(short, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| check, 1 limit |" in done.stdout
