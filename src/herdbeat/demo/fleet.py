"""Where the demo lives, and its fleet file. Its ledger stays from one demo to the next: that is half of the show."""

import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

FLEET_FILE = "herdbeat.yaml"


def demo_folder(environ: Mapping[str, str]) -> Path:
    """Below the cache of this user: known, so that the next start finds it, and free to be deleted."""
    cache = environ.get("XDG_CACHE_HOME", "")
    home = Path(cache) if cache.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".cache"
    return home / "herdbeat" / "demo"


def write_fleet(folder: Path, port: int) -> Path:
    """The fleet file, with its endpoints at that port. Only a file that differs is written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shipped = (files("herdbeat.demo") / "fleet.yaml").read_text(encoding="utf-8")
    text = shipped.replace("PYTHON", sys.executable).replace(":PORT/", f":{port}/")
    path = folder / FLEET_FILE
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path
