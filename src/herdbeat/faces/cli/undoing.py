"""The command that takes a change back: to what stood before, in words that a shell takes."""

import shlex

from herdbeat.domain.change import What
from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.changing import NAMED, Done, Item, elsewhere, same_again

_BACK = {What.DISABLE: "enable", What.ENABLE: "disable"}


def undo_of(given: Given, what: What, done: Done) -> str:
    """Empty if nothing takes it back. What stood in several ways goes back by several commands, while they are few."""
    ways: dict[str, list[str]] = {}
    for item in done.changed:
        ways.setdefault(_way_back(what, item["before"]), []).append(str(item["schedule"]))
    if not ways or "" in ways:
        return ""
    if len(ways) == 1:
        return f"herdbeat {next(iter(ways))} {same_again(given, done)}"
    if len(done.changed) > NAMED:
        return ""
    return " && ".join(f"herdbeat {way} {shlex.join(names)}{elsewhere(given)}" for way, names in ways.items())


def _way_back(what: What, before: Item) -> str:
    match what:
        case What.PAUSE | What.RESUME:
            return _hold_again(before) if before["paused"] else "resume"
        case What.SKIP:
            return f"skip --count {before['skips']}" if before["skips"] else "skip --clear"
        case _:
            return _BACK.get(what, "")


def _hold_again(before: Item) -> str:
    """With the end and the reason it had: a pause for two hours came back as one without an end."""
    end = ["--until", str(before["until"])] if before["until"] else []
    return shlex.join(["pause", *end, *(["--reason", str(before["reason"])] if before["reason"] else [])])
