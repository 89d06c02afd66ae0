"""docs/reference/cli.md: every command with its examples, arguments and options."""

from herdbeat.cli.help import format_option
from herdbeat.cli.spec import COMMON_FLAGS, TOP_LEVEL_FLAGS, Argument, CliCommand, Option
from herdbeat.cli.table import COMMANDS
from scripts import markdown

_INTRO = """\
`herdbeat COMMAND --help` prints the same in the terminal. Options can be placed anywhere. `--name value` and
`--name=value` are equivalent, as are `-n 3` and `-n3`. Words after `--` are never options.

Data goes to stdout; notices and errors go to stderr. Colors are used only on a terminal; `NO_COLOR`, `TERM=dumb` and
`--no-color` disable them, `FORCE_COLOR=1` enables them. Lines fit the width of the terminal; in a pipe they are not
shortened.
"""

_STATUSES = (
    ("0", "success, possibly with warnings"),
    ("1", "any other error, or refused; see the message"),
    ("2", "invalid command line, expression or configuration"),
    ("3", "unknown target, schedule or run"),
    ("4", "`exec`: another process has the run"),
    ("5", "`run --wait`, `retry --wait`, `agent test`: the run failed"),
    ("6", "a check failed: `status --check`, `doctor`, `db check`, `apply --dry-run --exit-code`"),
    ("7", "the ledger is not available"),
    ("124", "`down`: still running after the timeout"),
    ("130", "interrupted by Ctrl+C"),
    ("141", "the reader of the output has closed the pipe, as in `herdbeat next \\| head`"),
)

_VARIABLES = (
    ("HERDBEAT_CONFIG", "fleet file or folder, if no path is given"),
    ("HERDBEAT_STORE", "URL of the database for `db copy`, so that it is not on the command line"),
    ("HERDBEAT_TOKEN", "token for `--url`, if `--token-file` is not given"),
    ("HERDBEAT_NO_SERVER", "if set, `up` starts no server"),
    ("HERDBEAT_LOG_FORMAT", "`text` or `json`: the log of `up` and `serve`"),
    ("HERDBEAT_DEBUG", "if set, an internal error prints its traceback"),
    ("TZ", "time zone of this machine; takes precedence over /etc/localtime and /etc/timezone"),
    ("COLUMNS", "width of the output, instead of that of the terminal"),
    ("NO_COLOR, FORCE_COLOR, TERM", "see above"),
)


def page() -> str:
    return markdown.page(
        "Command line",
        _INTRO,
        *(_command(command) for command in COMMANDS),
        markdown.section("Options of every command", _options(COMMON_FLAGS)),
        markdown.section(
            "`herdbeat` alone",
            "`herdbeat` prints the everyday commands, `herdbeat --help` all of them.",
            _options(TOP_LEVEL_FLAGS),
        ),
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
