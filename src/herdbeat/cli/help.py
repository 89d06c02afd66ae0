"""The help pages, written from the table of commands: examples first, then options, links last."""

from collections.abc import Iterable

from herdbeat.cli.output.terminal import UNBOUNDED_COLUMNS, Terminal, wrap
from herdbeat.cli.spec import TOP_LEVEL_FLAGS, CliCommand, Option
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS

DOCS_URL = "https://github.com/herdbeat/herdbeat/tree/main/docs"
ISSUES_URL = "https://github.com/herdbeat/herdbeat/issues"
"""Both as in [project.urls] of pyproject.toml: a path in the checkout does not exist once installed."""

HELP_GROUPS = {
    "EVERY DAY": ("up", "down", "status", "list", "next", "explain", "run", "logs"),
    "CONTROL": (
        *("pause", "resume", "disable", "enable", "skip", "hint"),
        *("cancel", "retry", "backfill", "reset", "release", "ack", "pauses", "pauses cancel"),
    ),
    "CONFIGURATION": (
        *("init", "import", "validate", "apply", "create", "update", "delete"),
        *("config show", "rules test", "schema", "export"),
    ),
    "HISTORY": (
        *("show", "runs", "beats", "work", "timeline", "cost", "sessions", "changes", "replay"),
        "simulate",
        *("planner", "planner show", "notify"),
    ),
    "ADMINISTRATION": (
        *("notify test", "notify ack", "notify snooze"),
        *("doctor", "agent test", "nodes", "workspaces", "state", "completion"),
        *("db backup", "db restore", "db copy", "db prune", "db check"),
        *("service install", "service remove", "service status"),
        *("serve", "mcp", "exec", "token create", "token list", "token revoke", "webhook test", "webhook refused"),
    ),
}
"""The commands of each group of `herdbeat --help`. In capitals, so that no heading looks like a command."""

_FIRST_STEPS = (
    ("herdbeat up --demo", "Run the demo fleet; needs no setup"),
    ("herdbeat init", "Create a fleet file in this folder"),
    ('herdbeat next "0 9 * * 1-5"', "Show when a cron expression fires"),
)
_TITLE = "cron for AI agents and HTTP endpoints that can always tell you why"


def show_overview(terminal: Terminal) -> None:
    """Print the page of `herdbeat` alone: one screen, enough to begin."""
    _show_title(terminal)
    _show_section(terminal, "GET STARTED", _FIRST_STEPS)
    _show_section(terminal, "EVERY DAY", _group_rows("EVERY DAY"))
    terminal.print()
    terminal.print("All commands: herdbeat --help   Options and examples: herdbeat COMMAND --help")
    terminal.print(f"Documentation: {DOCS_URL}")


def show_all_commands(terminal: Terminal) -> None:
    """Print the page of `herdbeat --help`: every command with its summary, in groups."""
    _show_title(terminal)
    left = max(len(command.name) for command in COMMANDS) + 2
    for title in HELP_GROUPS:
        _show_section(terminal, title, _group_rows(title), left=left)
    _show_section(terminal, "OPTIONS", _option_rows(TOP_LEVEL_FLAGS), left=left)
    terminal.print()
    terminal.print("Options and examples of a command: herdbeat COMMAND --help")
    _show_links(terminal)


def _show_title(terminal: Terminal) -> None:
    terminal.print(f"{terminal.style('herdbeat', 'bold')}: {_TITLE}")
    terminal.print()
    terminal.print("Usage: herdbeat COMMAND [OPTIONS]")


def _group_rows(title: str) -> list[tuple[str, str]]:
    summaries = {command.name: command.summary for command in COMMANDS}
    return [(name, summaries[name]) for name in HELP_GROUPS[title]]


def show_group(terminal: Terminal, group: str) -> None:
    """Print the page of a group: the first word of two-word commands."""
    terminal.print(f"Usage: herdbeat {group} COMMAND [OPTIONS]")
    terminal.print()
    terminal.print(f"{COMMAND_GROUPS[group]}.")
    rows = [(name, command.summary) for command in COMMANDS for name in command.names if name.startswith(f"{group} ")]
    _show_section(terminal, "COMMANDS", rows)


def show_command(terminal: Terminal, command: CliCommand) -> None:
    for index, name in enumerate(command.names):
        label = "       " if index else "Usage: "
        terminal.print(label + " ".join(["herdbeat", name, *_usage_words(command)]))
    terminal.print()
    terminal.print(f"{command.summary}.")
    _show_section(terminal, "EXAMPLES", command.examples)
    _show_section(terminal, "ARGUMENTS", [(argument.name, argument.meaning) for argument in command.arguments])
    _show_section(terminal, "OPTIONS", _option_rows(command.all_options))
    if command.notes:
        terminal.print()
        terminal.print(terminal.style("NOTES", "bold"))
    for note in command.notes:
        for line in terminal.wrap(note, "  "):
            terminal.print(line)
    terminal.print()
    _show_links(terminal)


def _show_links(terminal: Terminal) -> None:
    terminal.print(f"Documentation: {DOCS_URL}")
    terminal.print(f"Report a bug:  {ISSUES_URL}")


def format_option(option: Option) -> str:
    """Return an option as the help writes it: `-n, --count N`."""
    return ", ".join(option.names) + (f" {option.value}" if option.value else "")


def _usage_words(command: CliCommand) -> Iterable[str]:
    for argument in command.arguments:
        word = ("|".join(argument.choices) or argument.name) + ("..." if argument.many else "")
        yield word if argument.required else f"[{word}]"
    if command.options:
        yield "[OPTIONS]"


def _option_rows(options: Iterable[Option]) -> list[tuple[str, str]]:
    """Return the rows of the options, with long names in one column whether or not there is a short one."""
    return [(f"{'' if len(option.names) > 1 else '    '}{format_option(option)}", option.meaning) for option in options]


def _show_section(terminal: Terminal, title: str, rows: Iterable[tuple[str, str]], *, left: int = 0) -> None:
    """Print a title and its rows; on a narrow screen a long meaning continues below itself.

    `left` is the least width of the first column.
    """
    rows = list(rows)
    if not rows:
        return
    terminal.print()
    terminal.print(terminal.style(title, "bold"))
    available_width = terminal.columns or UNBOUNDED_COLUMNS
    max_name_width = max(36, available_width - 60)  # the meaning of a longer name goes below it
    left = max(left, max((len(name) for name, _ in rows if len(name) <= max_name_width), default=0) + 2)
    for name, meaning in rows:
        lines = wrap(meaning, available_width - left - 2)
        if len(name) > max_name_width:
            terminal.print(f"  {name}")
            name = ""  # noqa: PLW2901 -- it is printed
        for index, line in enumerate(lines):
            terminal.print(f"  {name if index == 0 else '':{left}}{line}")
