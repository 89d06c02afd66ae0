"""The help, written from the table of commands: examples first, then options, links last."""

from collections.abc import Iterable

from herdbeat.faces.cli.commands import COMMANDS, GROUPS
from herdbeat.faces.cli.options import Command, Option
from herdbeat.faces.cli.terminal import UNBOUNDED, Terminal, wrap

_TRY = ("up", "next")
_FOLDED = {
    "look": ("show", "logs", "runs", "beats", "timeline", "changes", "nodes"),
    "change": ("pause", "resume", "disable", "enable", "skip", "hint", "cancel", "retry", "backfill", "reset"),
    "make": ("apply", "create", "update", "delete", "state", "service install", "service remove", "service status"),
    "and": (
        "doctor",
        "validate",
        "config show",
        "schema",
        "completion",
        "bench",
        "db backup",
        "db restore",
        "db copy",
        "db prune",
        "db check",
    ),
}
"""What is named on one line, so that the rest fits one screen."""

_LINKS = "Docs: docs/reference/cli.md · Problem codes: docs/reference/problems.md"


def show_overview(terminal: Terminal) -> None:
    """What `herdbeat` alone says: one screen, enough to begin."""
    terminal.say(f"{terminal.style('herdbeat', 'bold')}: cron for agents and endpoints that can always tell you why")
    _section(terminal, "Try", (command.examples[0] for command in COMMANDS if command.name in _TRY))
    _section(terminal, "Commands", _overview_rows())
    terminal.say()
    terminal.say('"herdbeat COMMAND --help" shows examples and options, --version the version.')
    terminal.say(_LINKS)


def _overview_rows() -> list[tuple[str, str]]:
    folded = {name for names in _FOLDED.values() for name in names}
    rows = [(command.name, command.summary) for command in COMMANDS if command.name not in folded]
    return [*rows, *((word, " · ".join(names)) for word, names in _FOLDED.items())]


def show_group(terminal: Terminal, group: str) -> None:
    """What the first word of a two-word command says by itself."""
    terminal.say(f"{terminal.style(f'herdbeat {group}', 'bold')}: {GROUPS[group]}")
    rows = [
        (" ".join(path), command.summary)
        for command in COMMANDS
        for path in (command.path, *command.aliases)
        if path[0] == group
    ]
    _section(terminal, "Commands", rows)


def show_command(terminal: Terminal, command: Command) -> None:
    terminal.say(f"{terminal.style(f'herdbeat {command.name}', 'bold')}: {command.summary}")
    _section(terminal, "Examples", command.examples)
    terminal.say()
    terminal.say(terminal.style("Usage", "bold"))
    for path in (command.path, *command.aliases):
        terminal.say("  " + " ".join(["herdbeat", *path, *_usage(command)]))
    _section(terminal, "Arguments", [(argument.name, argument.meaning) for argument in command.arguments])
    _section(terminal, "Options", _option_rows(command.all_options))
    if command.notes:
        terminal.say()
    for line in (line for note in command.notes for line in terminal.wrap(note, "")):
        terminal.say(line)
    terminal.say()
    terminal.say(_LINKS)


def written(option: Option) -> str:
    """An option as the help writes it: `-n, --count N`."""
    return ", ".join(option.names) + (f" {option.value}" if option.value else "")


def _usage(command: Command) -> Iterable[str]:
    for argument in command.arguments:
        word = ("|".join(argument.choices) or argument.name) + ("…" if argument.many else "")
        yield word if argument.required else f"[{word}]"
    if command.options:
        yield "[options]"


def _option_rows(options: Iterable[Option]) -> list[tuple[str, str]]:
    """Long names stand below each other, so a flag without a short one is moved in."""
    return [(f"{'' if len(option.names) > 1 else '    '}{written(option)}", option.meaning) for option in options]


def _section(terminal: Terminal, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A title and its rows; on a narrow screen a long right side goes on below itself."""
    rows = list(rows)
    if not rows:
        return
    terminal.say()
    terminal.say(terminal.style(title, "bold"))
    room = terminal.columns or UNBOUNDED
    most = max(36, room - 60)  # a name longer than this has its meaning below it
    left = max((len(name) for name, _ in rows if len(name) <= most), default=0) + 2
    for name, meaning in rows:
        lines = wrap(meaning, room - left - 2)
        if len(name) > most:
            terminal.say(f"  {name}")
            name = ""  # noqa: PLW2901 -- it has been said
        for index, line in enumerate(lines):
            terminal.say(f"  {name if index == 0 else '':{left}}{line}")
