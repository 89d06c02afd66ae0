"""The help pages, written from the table of commands: examples first, then options, links last."""

from collections.abc import Iterable

from herdbeat.cli.output.terminal import UNBOUNDED_COLUMNS, Terminal, wrap
from herdbeat.cli.spec import CliCommand, Option
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS

_FEATURED_COMMANDS = ("up", "next")
_GROUPED_COMMANDS = {
    "look": "show · logs · runs · beats · timeline · changes · nodes",
    "change": "pause · resume · disable · enable · skip · hint · cancel · retry · backfill · reset",
    "make": "apply · create · update · delete · state · service install · service remove · service status",
    "and": "doctor · validate · config show · schema · completion"
    " · db backup · db restore · db copy · db prune · db check",
}
"""Commands that share a line, so that the overview fits one screen."""

_DOC_LINKS = "Docs: docs/reference/cli.md · Problem codes: docs/reference/problems.md"


def show_overview(terminal: Terminal) -> None:
    """Print the page of `herdbeat` alone: one screen, enough to begin."""
    terminal.print(f"{terminal.style('herdbeat', 'bold')}: cron for agents and endpoints that can always tell you why")
    _show_section(terminal, "Try", (command.examples[0] for command in COMMANDS if command.name in _FEATURED_COMMANDS))
    _show_section(terminal, "Commands", _overview_rows())
    terminal.print()
    terminal.print('"herdbeat COMMAND --help" shows examples and options, --version the version.')
    terminal.print(_DOC_LINKS)


def _overview_rows() -> list[tuple[str, str]]:
    folded = {name for names in _GROUPED_COMMANDS.values() for name in names.split(" · ")}
    rows = [(command.name, command.summary) for command in COMMANDS if command.name not in folded]
    return [*rows, *_GROUPED_COMMANDS.items()]


def show_group(terminal: Terminal, group: str) -> None:
    """Print the page of a group: the first word of two-word commands."""
    terminal.print(f"{terminal.style(f'herdbeat {group}', 'bold')}: {COMMAND_GROUPS[group]}")
    rows = [(name, command.summary) for command in COMMANDS for name in command.names if name.startswith(f"{group} ")]
    _show_section(terminal, "Commands", rows)


def show_command(terminal: Terminal, command: CliCommand) -> None:
    terminal.print(f"{terminal.style(f'herdbeat {command.name}', 'bold')}: {command.summary}")
    _show_section(terminal, "Examples", command.examples)
    terminal.print()
    terminal.print(terminal.style("Usage", "bold"))
    for name in command.names:
        terminal.print("  " + " ".join(["herdbeat", name, *_usage_words(command)]))
    _show_section(terminal, "Arguments", [(argument.name, argument.meaning) for argument in command.arguments])
    _show_section(terminal, "Options", _option_rows(command.all_options))
    if command.notes:
        terminal.print()
    for line in (line for note in command.notes for line in terminal.wrap(note, "")):
        terminal.print(line)
    terminal.print()
    terminal.print(_DOC_LINKS)


def format_option(option: Option) -> str:
    """Return an option as the help writes it: `-n, --count N`."""
    return ", ".join(option.names) + (f" {option.value}" if option.value else "")


def _usage_words(command: CliCommand) -> Iterable[str]:
    for argument in command.arguments:
        word = ("|".join(argument.choices) or argument.name) + ("…" if argument.many else "")
        yield word if argument.required else f"[{word}]"
    if command.options:
        yield "[options]"


def _option_rows(options: Iterable[Option]) -> list[tuple[str, str]]:
    """Return the rows of the options, with long names in one column whether or not there is a short one."""
    return [(f"{'' if len(option.names) > 1 else '    '}{format_option(option)}", option.meaning) for option in options]


def _show_section(terminal: Terminal, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title and its rows; on a narrow screen a long meaning continues below itself."""
    rows = list(rows)
    if not rows:
        return
    terminal.print()
    terminal.print(terminal.style(title, "bold"))
    available_width = terminal.columns or UNBOUNDED_COLUMNS
    max_name_width = max(36, available_width - 60)  # the meaning of a longer name goes below it
    left = max((len(name) for name, _ in rows if len(name) <= max_name_width), default=0) + 2
    for name, meaning in rows:
        lines = wrap(meaning, available_width - left - 2)
        if len(name) > max_name_width:
            terminal.print(f"  {name}")
            name = ""  # noqa: PLW2901 -- it is printed
        for index, line in enumerate(lines):
            terminal.print(f"  {name if index == 0 else '':{left}}{line}")
