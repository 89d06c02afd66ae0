"""`herdbeat exec`: what an engine starts for one run."""

import asyncio
import logging
import sys
from pathlib import Path

from herdbeat.cli import spec as flags
from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.errors import UsageError

MAX_RUN_ID = 2**63 - 1


def run_exec(args: ParsedArgs, context: Context) -> Output:  # noqa: ARG001 - the shape of a command
    from herdbeat.bootstrap.remote_exec import execute_remote_run, read_token  # noqa: PLC0415 -- loads all runners

    (text,) = args.positionals
    run_id = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    url, token_file = args.value(flags.EXEC_URL), args.value(flags.TOKEN_FILE)
    if not 0 < run_id <= MAX_RUN_ID:
        raise UsageError(f'"{text[:40]}" is not the number of a run.', hint="An executor passes the number.")
    if url is None or token_file is None:
        raise UsageError("exec needs --url and --token-file.", hint="An executor passes both.")
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    return Output(exit_status=asyncio.run(execute_remote_run(run_id, url, read_token(Path(token_file)))))
