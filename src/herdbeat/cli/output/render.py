"""What a command returns, and the one place that prints it.

A command is a function `run_x(args, context) -> Output | int`. It finds its data, raises an error if the request is
wrong, and returns an `Output`. `main` passes that to `render`, which prints one form of it and returns the exit status:

- `json`: a function that returns the object of `--json`. It is called for that flag only.
- `plain`: the lines of `--plain`, tab-separated fields.
- `lines`: what people read: everything else. A line that is a `Notice` goes to stderr, and `--quiet` leaves it out.
- `notices`: remarks below the data in every form, JSON included.

Pass generators for `plain`, `lines` and `notices`: forms that are not printed are then never computed, and a long list
is printed while it is read. They run after the command has returned, so what they read from must still be open:
`open_fleet_handle` leaves the ledger to `context.resources`, which `main` closes after printing.

    def run_nodes(args: ParsedArgs, context: Context) -> Output:
        handle = open_fleet_handle(args, context)
        nodes = find_nodes(handle.require_reader(), handle.now)
        return Output(json=lambda: serialize_nodes(nodes), lines=_node_lines(context.terminal, nodes))

A command that prints while something runs (`up`, `logs`, `status --watch`, `run --wait`) writes to the terminal itself
and returns its exit status.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from herdbeat.cli.output.terminal import Terminal
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.spec import JSON, PLAIN


class Notice(str):
    """A line for stderr among those for stdout: about the data, not part of it."""

    __slots__ = ()


class ErrorLine(str):
    """A line for stderr that `--quiet` prints, too: something was refused."""

    __slots__ = ()


class SecretLine(str):
    """A line that is a secret and shown nevertheless: a new token, once."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The result of a command in every form it has. `is_compact` puts the JSON on one line, in ASCII.

    With `shows_secret`, the JSON has a secret that is shown this once.
    """

    lines: Iterable[str] = ()
    plain: Iterable[str] | None = None
    json: Callable[[], object] | None = None
    notices: Iterable[str] = ()
    is_compact: bool = False
    shows_secret: bool = False
    exit_status: int = 0


def render(output: Output, args: ParsedArgs, terminal: Terminal) -> int:
    """Print the form that the flags ask for, and return the exit status."""
    if output.json is not None and args.has(JSON):
        text = _format_json(output.json(), is_compact=output.is_compact)
        terminal.print_secret(text) if output.shows_secret else terminal.print(text)
    else:
        is_plain = output.plain is not None and args.has(PLAIN)
        _print_lines(terminal, (output.plain or ()) if is_plain else output.lines)
    for notice in output.notices:
        terminal.info(notice)
    return output.exit_status


def _print_lines(terminal: Terminal, lines: Iterable[str]) -> None:
    for line in lines:
        if isinstance(line, Notice):
            terminal.info(line)
        elif isinstance(line, ErrorLine):
            terminal.error(line)
        elif isinstance(line, SecretLine):
            terminal.print_secret(line)
        else:
            terminal.print(line)


def _format_json(value: object, *, is_compact: bool) -> str:
    import json  # noqa: PLC0415 -- a table does not need it; test_lazy_loading.py guards the start-up time

    return json.dumps(value) if is_compact else json.dumps(value, indent=2, ensure_ascii=False)
