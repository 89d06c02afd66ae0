"""docs/reference/cli.md: every command with its examples, arguments and options."""

from herdbeat.cli.help import format_option
from herdbeat.cli.spec import COMMON_FLAGS, TOP_LEVEL_FLAGS, Argument, CliCommand, Option
from herdbeat.cli.table import COMMANDS
from scripts import markdown

_INTRO = """\
`herdbeat COMMAND --help` says the same in the terminal. Options may stand anywhere; `--name value` and `--name=value`
are the same, and so are `-n 3` and `-n3`. What follows a lone `--` is never an option.

Data goes to stdout, remarks and errors go to stderr. Colour is used only on a terminal; `NO_COLOR`, `TERM=dumb` and
`--no-color` switch it off, `FORCE_COLOR=1` switches it on. Lines fit the width of the terminal; in a pipe nothing is
shortened.
"""

_STATUSES = (
    ("0", "it worked; `validate` may have warned"),
    ("1", "something else went wrong; the message says what"),
    ("2", "the command line, the expression or the configuration is wrong"),
    ("3", "no target, schedule or run has that name"),
    ("5", "`run --wait`: the run failed"),
    ("6", "`status --check`: no node runs, or something is late or failing"),
    ("7", "the store does not answer"),
    ("124", "`down`: the time was over, and it was still running"),
    ("130", "interrupted by Ctrl-C"),
    ("141", "whoever read the output has left, as in `herdbeat next \\| head`"),
)

_VARIABLES = (
    ("HERDBEAT_CONFIG", "the fleet file or folder, if no path is given"),
    ("HERDBEAT_DEBUG", "set to anything: a failure of herdbeat itself shows its traceback"),
    ("TZ", "the zone of this machine, before /etc/localtime and /etc/timezone"),
    ("COLUMNS", "the width to write for, instead of the terminal's"),
    ("NO_COLOR, FORCE_COLOR, TERM", "see above"),
)


def page() -> str:
    return markdown.page(
        "Command line",
        _INTRO,
        *(_command(command) for command in COMMANDS),
        markdown.section("Options of every command", _options(COMMON_FLAGS)),
        markdown.section("`herdbeat` alone", "Shows the commands.", _options(TOP_LEVEL_FLAGS)),
        markdown.section("Exit status", _statuses()),
        markdown.section("Environment", markdown.table(("variable", "meaning"), _variables())),
    )


def _command(command: CliCommand) -> str:
    others = ", ".join(markdown.code(f"herdbeat {alias}") for alias in command.names[1:])
    return markdown.section(
        markdown.code(f"herdbeat {command.name}"),
        f"{command.summary[0].upper()}{command.summary[1:]}.",
        f"Also: {others}." if others else "",
        markdown.table(("example", "what for"), [(markdown.code(call), why) for call, why in command.examples]),
        _arguments(command.arguments),
        _options(command.options),
        "\n".join(command.notes),
    )


def _arguments(arguments: tuple[Argument, ...]) -> str:
    if not arguments:
        return ""
    rows = [(markdown.code(each.name), "yes" if each.required else "", each.meaning) for each in arguments]
    return markdown.table(("argument", "required", "meaning"), rows)


def _options(options: tuple[Option, ...]) -> str:
    if not options:
        return ""
    return markdown.table(
        ("option", "meaning"), [(markdown.code(format_option(each)), each.meaning) for each in options]
    )


def _statuses() -> str:
    lines = ["| status | meaning |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| `{status}` | {meaning} |" for status, meaning in _STATUSES)])


def _variables() -> list[tuple[str, str]]:
    return [(markdown.code(name), meaning) for name, meaning in _VARIABLES]
