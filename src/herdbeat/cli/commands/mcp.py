"""`herdbeat mcp`: the MCP server on standard input and output. This process becomes it."""

import os
import sys

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs


def run_mcp(args: ParsedArgs, context: Context) -> Output:
    """Start the server in place of this process, so that it has its input, its output and its signals."""
    words = []
    for flag in (flags.CONFIG, flags.AS):
        if (value := args.value(flag)) is not None:
            words += [flag.names[-1], value]
    words += [flags.READ_ONLY.names[-1]] if args.has(flags.READ_ONLY) else []
    context.terminal.out.flush()
    # -P: a folder named mcp or herdbeat where the user works must not be imported instead.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "herdbeat.mcp", *words])  # noqa: S606
