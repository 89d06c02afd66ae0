"""The command that takes a change back: to what stood before, in words that a shell takes."""

import shlex

from herdbeat.domain.change import ChangeKind
from herdbeat.faces.cli.arguments import ParsedArgs
from herdbeat.faces.cli.changing import (
    MAX_NAMED_SCHEDULES,
    ChangeResult,
    ResultItem,
    format_config_flag,
    format_selection,
)

_INVERSE_VERBS = {ChangeKind.DISABLE: "enable", ChangeKind.ENABLE: "disable"}


def undo_command(args: ParsedArgs, what: ChangeKind, result: ChangeResult) -> str:
    """Empty if nothing takes it back. What stood in several ways goes back by several commands, while they are few."""
    labels_by_command: dict[str, list[str]] = {}
    for item in result.changed:
        labels_by_command.setdefault(_inverse_command(what, item["before"]), []).append(str(item["schedule"]))
    if not labels_by_command or "" in labels_by_command:
        return ""
    if len(labels_by_command) == 1:
        return f"herdbeat {next(iter(labels_by_command))} {format_selection(args, result)}"
    if len(result.changed) > MAX_NAMED_SCHEDULES:
        return ""
    return " && ".join(
        f"herdbeat {command} {shlex.join(names)}{format_config_flag(args)}"
        for command, names in labels_by_command.items()
    )


def _inverse_command(what: ChangeKind, before: ResultItem) -> str:
    match what:
        case ChangeKind.PAUSE | ChangeKind.RESUME:
            return _pause_again_command(before) if before["paused"] else "resume"
        case ChangeKind.SKIP:
            return f"skip --count {before['skips']}" if before["skips"] else "skip --clear"
        case _:
            return _INVERSE_VERBS.get(what, "")


def _pause_again_command(before: ResultItem) -> str:
    """With the end and the reason it had: a pause for two hours came back as one without an end."""
    end = ["--until", str(before["until"])] if before["until"] else []
    return shlex.join(["pause", *end, *(["--reason", str(before["reason"])] if before["reason"] else [])])
