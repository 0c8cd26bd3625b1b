"""Requests per second through gunicorn and uvicorn, as wrk counts them: a trivial view, bare and limited.

Each contestant has its own process. The other processes are idle during its turn. The clients are a thousand
addresses that use one proxy, so that no history grows longer than in a busy minute.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import Request, urlopen

from tests.benchmarks.contestants import FLOOR, OURS, Contestant
from tests.benchmarks.report import Row, multiples
from tests.benchmarks.timing import Samples, rounds
from tests.servers import free_port, wait_until

BARE = "bare view"
CONNECTIONS = 8
SECONDS = 1
SERVERS = {
    "gunicorn": ["gunicorn", "--workers=1", "--bind=127.0.0.1:{port}", "tests.benchmarks.site:wsgi()"],
    "uvicorn": ["uvicorn", "--port={port}", "--log-level=error", "--factory", "tests.benchmarks.site:asgi"],
}
TARGETS = {"gunicorn": "≥ 0.58", "uvicorn": ""}
ADDRESSES = """
local requests, at = {}, 0
init = function()
  for n = 0, 999 do
    requests[n] = wrk.format(nil, nil, { ["X-Forwarded-For"] = "198.51." .. math.floor(n / 250) .. "." .. n % 250 + 1 })
  end
end
request = function() at = (at + 1) % 1000 return requests[at] end
"""


def http(server: str, peers: Sequence[Contestant], seconds: float) -> list[Row]:
    """Yield one row, or no row if wrk is not installed."""
    if shutil.which("wrk") is None:
        print("wrk is not installed (apt-get install wrk): no figures for HTTP", file=sys.stderr)
        return []
    return [_row(server, peers, seconds)]


def _row(server: str, peers: Sequence[Contestant], seconds: float) -> Row:
    samples: Samples = {name: {} for name in (BARE, FLOOR.name, OURS.name, *[peer.name for peer in peers])}
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "addresses.lua"
        script.write_text(ADDRESSES)
        urls = {name: stack.enter_context(_served(server, name)) for name in samples}
        for number, taking_part in rounds(list(samples), [], seconds):
            for name in taking_part:
                samples[name][number] = 1 / requests_per_second(urls[name], script)
    bare = 1 / statistics.median(samples[BARE].values())
    return Row(
        f"requests per second, {server}, 2 limits",
        f"bare view {bare:,.0f}/s",
        TARGETS[server],
        multiples(samples, BARE, inverse=True),
        f"{len(samples[OURS.name])} x {SECONDS} s",
    )


@contextlib.contextmanager
def _served(server: str, site: str) -> Iterator[str]:
    """Serve a contestant's view, and yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    command = [sys.executable, "-m", *[word.format(port=port) for word in SERVERS[server]]]
    process = subprocess.Popen(
        command, env={**os.environ, "BENCHMARK_SITE": site}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        try:
            with urlopen(Request(url, headers={"X-Forwarded-For": "198.51.100.1"}), timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            if process.poll() is not None:
                raise AssertionError(f"{server} did not start for {site}: {' '.join(command)}") from None
            return False

    try:
        wait_until(answers, 30, f"{server} to serve {site}")
        yield url
    finally:
        process.terminate()
        process.wait()


def requests_per_second(url: str, script: Path) -> float:
    """Return wrk's requests per second. Each response must be a success."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None or "Non-2xx" in said:
        raise AssertionError(f"wrk received error responses: {said}")
    return float(found[1])
