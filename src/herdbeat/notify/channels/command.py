"""A program as a receiver: the payload as JSON on standard input, exit status 0 for done."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from herdbeat.notify.base import DeliveryFailed, OutgoingMessage
from herdbeat.platform import default_signals
from herdbeat.redaction import redact

MAX_OUTPUT_BYTES = 1024 * 1024
_MAX_SHOWN_CHARS = 300
_SIZE_CHECK_INTERVAL_S = 0.1


async def run_command(
    message: OutgoingMessage, environment: Mapping[str, str], folder: Path, time_limit: timedelta
) -> None:
    """Run the program to its end. Raises DeliveryFailed, which is final: a program is started at most once."""
    argv = list_arguments(message.spec.get("command"))
    with TemporaryFile() as stdin, TemporaryFile() as output:
        stdin.write(json.dumps(dict(message.payload)).encode() + b"\n")
        stdin.seek(0)
        try:
            with default_signals() as preexec_fn:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=stdin,
                    stdout=output,
                    stderr=output,
                    cwd=folder,
                    env={**environment, "HERDBEAT_MESSAGE": message.id},
                    start_new_session=True,
                    preexec_fn=preexec_fn,
                )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds a NUL"
            raise DeliveryFailed(f'"{argv[0] if argv else ""}" cannot be started: {why}.', is_final=True) from error
        try:
            async with asyncio.timeout(time_limit.total_seconds()):
                await _wait(process, output)
        except TimeoutError as error:
            raise DeliveryFailed(f"It took longer than {time_limit.total_seconds():g}s.", is_final=True) from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode:
            raise DeliveryFailed(_describe_exit(process.returncode, output), is_final=True)


def list_arguments(command: object) -> list[str]:
    """Return the argv. A text is herdctl's shell hook: the operator has written it for a shell."""
    if isinstance(command, list | tuple):
        return [str(each) for each in command]
    return ["/bin/sh", "-c", str(command)]


async def _wait(process: asyncio.subprocess.Process, output: IO[bytes]) -> None:
    """Wait for the exit, and look now and then how much was printed."""
    while process.returncode is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SIZE_CHECK_INTERVAL_S):
                await process.wait()
        if os.fstat(output.fileno()).st_size > MAX_OUTPUT_BYTES:
            raise DeliveryFailed("It printed more than 1 MB.", is_final=True)


def _describe_exit(status: int, output: IO[bytes]) -> str:
    size = os.fstat(output.fileno()).st_size
    output.seek(max(0, size - 4_096))
    lines = output.read(4_096).decode(errors="replace").strip().splitlines()
    last = f": {redact(lines[-1])[:_MAX_SHOWN_CHARS]}" if lines else ""
    return f"It exited with {status}{last}"
