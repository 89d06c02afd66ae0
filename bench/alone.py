"""Each contender in a process of its own, in a fresh folder: nobody inherits a warm cache or a full heap."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.environments import FOLDER, node_of, python_of

PATIENCE = 900
"""Seconds for one contender. Longer, and something hangs."""

PEERS = Path(__file__).parent / "peers"

Measured = dict[str, Any]


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """Beside the checkout, not in /tmp: that may be memory, where nothing is ever durable."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as folder:
        yield Path(folder)


def ours(name: str, folder: Path, **arguments: object) -> Measured:
    return _answer([sys.executable, "-m", "bench.ours", name, str(folder), json.dumps(arguments)])


def peer(environment: str, script: str, count: int, *words: str) -> Measured:
    """A script of `bench/peers`, in the environment of that peer. Raises NotSetUp."""
    with fresh_folder() as folder:
        return _answer([python_of(environment), str(PEERS / f"{script}.py"), str(count), str(folder), *words])


def node_peer(environment: str, script: str, count: int, url: str, *words: str) -> Measured:
    """The same for Node.js, which is told where its modules are. Raises NotSetUp."""
    node, home = node_of(environment)
    with fresh_folder() as folder:
        return _answer([node, str(PEERS / f"{script}.mjs"), str(count), str(folder), url, str(home), *words])


def _answer(command: list[str]) -> Measured:
    """The last line that the process prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    answer: Measured = json.loads(done.stdout.splitlines()[-1])
    return answer
