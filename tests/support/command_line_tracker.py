"""A tracker with a command line, for work sources of type `command`: `python command_line_tracker.py FOLDER VERB`.

Its state is one JSON file under a lock, and its log has a line for everything that it did: an oracle reads it. A file
`hang-VERB` in the folder makes the next call of that verb hang before it acts.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOST = 3
HANG_S = 600.0


def offer(folder: Path, *ids: str) -> None:
    """Open the tracker with these items."""
    folder.mkdir(exist_ok=True)
    items = {each: {"state": "ready", "marker": ""} for each in ids}
    (folder / "state.json").write_text(json.dumps(items), encoding="utf-8")


def read_items(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return found


def read_log(folder: Path) -> list[list[str]]:
    path = folder / "log"
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@contextmanager
def _locked(folder: Path) -> Iterator[dict[str, Any]]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        items = read_items(folder)
        yield items
        (folder / "new").write_text(json.dumps(items), encoding="utf-8")
        (folder / "new").replace(folder / "state.json")


def _note(folder: Path, *words: str) -> None:
    with (folder / "log").open("a", encoding="utf-8") as log:
        log.write(" ".join(words) + "\n")


def _hang_if_told(folder: Path, verb: str) -> None:
    try:
        (folder / f"hang-{verb}").unlink()
    except FileNotFoundError:
        return
    _note(folder, "hangs", verb, str(os.getpid()))
    time.sleep(HANG_S)


def main(folder: Path, verb: str) -> int:
    given = {} if verb == "list" else json.loads(sys.stdin.read())
    _hang_if_told(folder, verb)
    with _locked(folder) as items:
        if verb == "list":
            for name, item in items.items():
                if item["state"] == "ready":
                    print(json.dumps({"id": name, "title": f"Task {name}"}))
            return 0
        return _act(folder, items[given["id"]], verb, given)


def _act(folder: Path, item: dict[str, Any], verb: str, given: dict[str, Any]) -> int:
    """Do a verb once for each marker; a repetition does nothing more."""
    name, marker, result = given["id"], given["run_marker"], given.get("result", {})
    if verb == "claim":
        if item["state"] != "ready":
            return 0 if item["marker"] == marker else LOST
        item.update(state="working", marker=marker)
    elif item["marker"] != marker or item["state"] != "working":
        return LOST if verb == "release" else 0
    elif verb == "release" or result["offers_again"]:
        item.update(state="ready", marker="")
    else:
        item.update(state=result["outcome"], marker=marker)
    _note(folder, verb, name, marker, result.get("outcome", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
