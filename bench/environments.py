"""Environments of the peers: two of them cannot live together, and none is needed by anything but a race."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".bench"

PACKAGES = {
    "apscheduler3": ("apscheduler>=3.11,<4", "sqlalchemy>=2"),
    # aiosqlite is the driver its documents name; sniffio is imported by it, and no longer comes with anyio.
    "apscheduler4": ("apscheduler==4.0.0a6", "sqlalchemy[asyncio]>=2", "aiosqlite", "sniffio"),
    "huey": ("huey>=2.5",),
}


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, which is made the first time."""
    home = FOLDER / peer
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"setting up {peer} (once)", flush=True)
        uv = str(Path(sys.executable).with_name("uv"))
        # uv puts a .gitignore into it: it is nobody's source.
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES[peer]], check=True)
        (home / "ready").touch()
    return str(python)
