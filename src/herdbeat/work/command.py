"""Programs as a work source: one argv per verb covers every tracker that has a command line.

    list      prints items, one JSON object a line (or one array of them)
    claim     gets the item as JSON on stdin; exit status 0: claimed, 3: somebody else has it
    report    gets the item and how the run ended
    release   gets the item; it is to be offered again

The JSON on stdin has the item's fields and `run_marker`. A verb may be repeated with the same marker and must then do
nothing more. No text of an item ever becomes part of an argv.
"""

import asyncio
import hashlib
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Protocol

from herdbeat.domain.work_item import Report, WorkItem
from herdbeat.errors import truncate_for_message
from herdbeat.platform import default_signals
from herdbeat.work.base import (
    DEFAULT_PRIORITY,
    MAX_LISTED_ITEMS,
    ClaimStatus,
    FailureCause,
    ReleaseStatus,
    WorkClaim,
    WorkClaimResult,
    WorkSourceFailed,
    build_item,
    check_run_marker,
    redact_tokens,
)

VERB_TIMEOUT = timedelta(seconds=60)
LOST_STATUS = 3
MAX_OUTPUT_BYTES = 32 * 1024 * 1024
MAX_STDERR_BYTES = 64 * 1024
_SIZE_CHECK_INTERVAL_S = 0.1


class WatchedProgram(Protocol):
    """A program that ends with its node: a claim that went on would take an item for a run that nobody knows."""

    @property
    def marks(self) -> Mapping[str, str]:
        """The variables that it is found by."""
        ...

    def watch(self, pid: int) -> None:
        """It has started, and leads its process group."""
        ...


class ProgramWatch(Protocol):
    """What ends the programs of a node that was killed."""

    def open_program(self) -> AbstractContextManager[WatchedProgram]:
        """Expect a program to be started in the block. Nothing of it is left when the block ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """A `work_source:` of type command. Without `claim` nothing is marked outside: the store alone remembers.

    `environment` is all that the programs get. `secrets` are the values in it that no message may show.
    """

    list_argv: tuple[str, ...]
    claim_argv: tuple[str, ...] = ()
    report_argv: tuple[str, ...] = ()
    release_argv: tuple[str, ...] = ()
    timeout: timedelta = VERB_TIMEOUT
    working_directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.list_argv:
            text = "A command work source needs the argv of list."
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Write list: [program, argument].")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exit:
    status: int
    stdout: bytes
    stderr: bytes


class CommandSource:
    """Implements WorkSource. Every verb is a process group of its own, which its deadline ends."""

    def __init__(self, settings: CommandSettings, watch: ProgramWatch | None = None) -> None:
        self._settings = settings
        self._watch = watch

    @property
    def key(self) -> str:
        digest = hashlib.sha256(json.dumps(self._settings.list_argv).encode()).hexdigest()
        return f"command:{digest[:16]}"

    @property
    def claims_remotely(self) -> bool:
        return bool(self._settings.claim_argv)

    @property
    def is_local(self) -> bool:
        return True

    async def list(self, limit: int = MAX_LISTED_ITEMS) -> tuple[WorkItem, ...]:
        """Return the items in the order in which the program prints them."""
        ended = await self._run("list", self._settings.list_argv, b"")
        self._require_success("list", ended)
        items: dict[str, WorkItem] = {}
        for number, entry in enumerate(parse_entries(ended.stdout), start=1):
            item = parse_item(entry, f"entry {number} of list")
            items.setdefault(item.id, item)
            if len(items) >= min(limit, MAX_LISTED_ITEMS):
                break
        return tuple(items.values())

    async def find_problems(self) -> tuple[str, ...]:
        """Listing finds all there is to find."""
        return ()

    async def claim(self, item: WorkItem, run_marker: str) -> WorkClaimResult:
        """Ask for the item. The program may print it again, as it is now."""
        if not self.claims_remotely:
            return WorkClaimResult(status=ClaimStatus.CLAIMED, item=item)
        ended = await self._run("claim", self._settings.claim_argv, to_input(item, run_marker))
        if ended.status == LOST_STATUS:
            return WorkClaimResult(status=ClaimStatus.LOST)
        self._require_success("claim", ended)
        entries = parse_entries(ended.stdout) if ended.stdout.strip() else []
        if not entries:
            return WorkClaimResult(status=ClaimStatus.CLAIMED, item=item)
        fresh = parse_item(entries[0], "the item that claim printed")
        if fresh.id != item.id:
            text = f'claim printed another item than "{truncate_for_message(item.id)}".'
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
        return WorkClaimResult(status=ClaimStatus.CLAIMED, item=fresh)

    async def report(self, claim: WorkClaim, report: Report) -> None:
        if not self._settings.report_argv:
            return
        result = {
            "outcome": "succeeded" if report.succeeded else "failed",
            "summary": report.summary,
            "error": report.error,
            "attempt": report.attempt,
            "max_attempts": report.max_attempts,
            "offers_again": report.offers_again,
        }
        data = to_input(claim.item, claim.run_marker, result=result)
        self._require_success("report", await self._run("report", self._settings.report_argv, data))

    async def release(self, claim: WorkClaim) -> ReleaseStatus:
        """Tell the program to offer the item again. Exit status 3: it was not ours."""
        if not self._settings.release_argv:
            return ReleaseStatus.RELEASED
        data = to_input(claim.item, claim.run_marker, is_confirmed=claim.is_confirmed)
        ended = await self._run("release", self._settings.release_argv, data)
        if ended.status == LOST_STATUS:
            return ReleaseStatus.NOT_OURS
        self._require_success("release", ended)
        return ReleaseStatus.RELEASED

    async def close(self) -> None:
        """Nothing stays open."""

    def _require_success(self, verb: str, ended: _Exit) -> None:
        if ended.status == 0:
            return
        how = f"status {ended.status}" if ended.status > 0 else f"signal {-ended.status}"
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        said = f": {truncate_for_message(redact_tokens(lines[-1], self._settings.secrets), 160)}" if lines else ""
        text = f"The command for {verb} ended with {how}{said.rstrip('.')}."
        raise WorkSourceFailed(text, cause=FailureCause.UNAVAILABLE)

    async def _run(self, verb: str, argv: tuple[str, ...], data: bytes) -> _Exit:
        with nullcontext() if self._watch is None else self._watch.open_program() as program:
            return await self._run_watched(verb, argv, data, program)

    async def _run_watched(
        self, verb: str, argv: tuple[str, ...], data: bytes, program: WatchedProgram | None
    ) -> _Exit:
        # Files, not pipes: a process that the program leaves behind may hold a pipe open for ever.
        with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
            stdin.write(data)
            stdin.seek(0)
            environment = {**self._settings.environment, **(program.marks if program is not None else {})}
            process = await self._spawn(verb, argv, environment, stdin, stdout, stderr)
            if program is not None:
                program.watch(process.pid)
            try:
                async with asyncio.timeout(self._settings.timeout.total_seconds()):
                    await _wait(process, verb, stdout, stderr)
            except TimeoutError as error:
                text = f"The command for {verb} did not end in {self._settings.timeout.total_seconds():g} s."
                raise WorkSourceFailed(text, cause=FailureCause.TIMEOUT) from error
            finally:
                await _end(process)
            assert process.returncode is not None
            return _Exit(status=process.returncode, stdout=_read_from(stdout, 0), stderr=_read_tail(stderr))

    async def _spawn(
        self,
        verb: str,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
    ) -> Process:
        try:
            with default_signals() as preexec_fn:
                return await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=self._settings.working_directory,
                    env=dict(environment),
                    start_new_session=True,
                    preexec_fn=preexec_fn,
                )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds a NUL"
            text = f'The command for {verb} cannot be started: "{truncate_for_message(argv[0])}": {why}.'
            raise WorkSourceFailed(text, cause=FailureCause.CONFIG, hint="Check the argv under work_source.") from error


async def _wait(process: Process, verb: str, stdout: IO[bytes], stderr: IO[bytes]) -> None:
    """Wait for the exit, and look now and then how much was printed."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SIZE_CHECK_INTERVAL_S):
                await process.wait()
        if max(_size(stdout), _size(stderr)) > MAX_OUTPUT_BYTES:
            text = f"The command for {verb} printed more than {MAX_OUTPUT_BYTES // 2**20} MB."
            raise WorkSourceFailed(text, cause=FailureCause.INVALID_ANSWER)
        if process.returncode is not None:
            return


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _read_from(file: IO[bytes], position: int) -> bytes:
    file.seek(position)
    return file.read(MAX_OUTPUT_BYTES)


def _read_tail(file: IO[bytes]) -> bytes:
    return _read_from(file, max(0, _size(file) - MAX_STDERR_BYTES))


async def _end(process: Process) -> None:
    """Kill whatever is left of the program's group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def to_input(item: WorkItem, run_marker: str, **more: object) -> bytes:
    """Return the JSON that a verb gets on stdin, on one line."""
    fields: dict[str, object] = {
        "id": item.id,
        "title": item.title,
        "body": item.body,
        "url": item.url,
        "labels": list(item.labels),
        "assignee": item.assignee,
        "priority": item.priority,
        "metadata": dict(item.metadata),
        "run_marker": check_run_marker(run_marker),
    }
    return json.dumps({**fields, **more}).encode() + b"\n"


def parse_entries(output: bytes) -> list[object]:
    """Return the JSON values of the output: one a line, or the elements of one array.

    Raises WorkSourceFailed with the number of the line that is not JSON.
    """
    text = output.decode(errors="replace").strip()
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            return found if isinstance(found, list) else [found]
    entries: list[object] = []
    # Not splitlines(), which ends a line at U+2028 and others that JSON allows inside of a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entries.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            message = f'Line {number} is not JSON: "{truncate_for_message(redact_tokens(line))}".'
            raise WorkSourceFailed(message, cause=FailureCause.INVALID_ANSWER) from error
    return entries


def parse_item(entry: object, where: str) -> WorkItem:
    """Return the item of a JSON object. Unknown keys are ignored; an id is required, a number will do."""
    found: dict[str, object] = entry if isinstance(entry, dict) else {}
    item_id = found.get("id")
    if isinstance(item_id, bool) or not isinstance(item_id, str | int):
        message = f'There is no "id" in {where}.'
        raise WorkSourceFailed(message, cause=FailureCause.INVALID_ANSWER)
    labels, metadata = found.get("labels"), found.get("metadata")
    return build_item(
        str(item_id),
        title=_text(found.get("title")) or str(item_id),
        body=_text(found.get("body")) or _text(found.get("description")),
        url=_text(found.get("url")),
        labels=[_text(label) for label in labels] if isinstance(labels, list) else [],
        assignee=_text(found.get("assignee")),
        priority=_text(found.get("priority")) or DEFAULT_PRIORITY,
        metadata={key: _text(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {},
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
