"""Run each contender in its own process and a fresh folder, so that none inherits a warm cache or a full heap."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.environments import FOLDER, peer_node, peer_python

CONTENDER_TIMEOUT = 900
"""Seconds for one contender. One that takes longer hangs."""

PEERS = Path(__file__).parent / "peers"

Measurement = dict[str, Any]


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """Create a temporary folder beside the checkout. /tmp may be in memory, where writes are never durable."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as folder:
        yield Path(folder)


def run_ours(name: str, folder: Path, **arguments: object) -> Measurement:
    return _run_for_json([sys.executable, "-m", "bench.ours", name, str(folder), json.dumps(arguments)])


def run_peer(environment: str, script: str, count: int, *words: str) -> Measurement:
    """Run a script of `bench/peers` in the environment of that peer. Raises PeerUnavailable."""
    with fresh_folder() as folder:
        return _run_for_json([peer_python(environment), str(PEERS / f"{script}.py"), str(count), str(folder), *words])


def run_node_peer(environment: str, script: str, count: int, url: str, *words: str) -> Measurement:
    """Run a Node.js script, which gets the folder of its modules as an argument. Raises PeerUnavailable."""
    node, home = peer_node(environment)
    with fresh_folder() as folder:
        return _run_for_json([node, str(PEERS / f"{script}.mjs"), str(count), str(folder), url, str(home), *words])


def _run_for_json(command: list[str]) -> Measurement:
    """Return the last line that the process prints, parsed as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=CONTENDER_TIMEOUT)
    answer: Measurement = json.loads(done.stdout.splitlines()[-1])
    return answer
