"""`herdbeat exec`: takes one run that was submitted to an engine, runs it as a node would, and reports to the server.

Its token is read from a file and never given to the program. What it learns by taking the run, the secret with which it
reports, stays in memory. A process that cannot report for a lease ends its program: by then another process may run it.
"""

import asyncio
import json
import logging
import os
import platform
import random
import secrets
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from herdbeat import __version__
from herdbeat.bootstrap.config import detect_system_zone
from herdbeat.bootstrap.exec_folder import open_exec_folder
from herdbeat.clock import SystemClock
from herdbeat.config.schema.executors import is_safe_callback
from herdbeat.domain.agent_tools import RunReport
from herdbeat.domain.codec import from_json
from herdbeat.domain.run import Outcome, RunStatus, add_report
from herdbeat.errors import HerdbeatError, StoreUnavailable, UsageError
from herdbeat.platform import boot_time, handle_stop_signals
from herdbeat.redaction import is_secret_name, register_secrets
from herdbeat.runners.agents.own_tools import OwnTools, RunGrant
from herdbeat.runners.base import Runner, attached_report
from herdbeat.runners.registry import RunnerRegistry, open_runners
from herdbeat.runners.run_log import LOG_SUFFIX, LOGS_FOLDER
from herdbeat.runners.settings import RunnerSettings
from herdbeat.scheduler.execute import describe_timeout
from herdbeat.scheduler.membership import LEASE_STOP_FRACTION
from herdbeat.scheduler.remote_jobs import RemoteWork, dump_outcome, load_work
from herdbeat.triggers import load_trigger

log = logging.getLogger(__name__)

EXIT_OK, EXIT_REFUSED, EXIT_UNREACHABLE = 0, 4, 7
TAKE_PATIENCE_S = 60.0
RESULT_PATIENCE_S = 3600.0
"""Seconds for which a result is offered to a server that is away. Its program has ended by then."""

MAX_RENEW_INTERVAL_S = 10.0
MAX_LEASE_LOOK_S = 1.0
MAX_LOG_PART_BYTES = 192 * 1024
MAX_RECORD_CHARS = 64 * 1024
"""Characters of a record in a part of its own: as JSON in JSON, each may need 13 bytes."""

MAX_RESULT_BYTES = 800 * 1024
_REQUEST_TIMEOUT_S = 20.0
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TAKEN_KEYS = frozenset({"secret", "data", "environment", "run_token", "note"})
_REFUSALS = frozenset({400, 401, 403, 404, 409, 413, 422})


class TakeRefused(HerdbeatError):
    """The server does not give us the run: it is another's, it has ended, or our token is wrong."""


class ServerAway(Exception):
    """The server did not answer, or only with an error of its own: then it `has_answered`."""

    def __init__(self, message: str, *, has_answered: bool = False) -> None:
        super().__init__(message)
        self.has_answered = has_answered


@dataclass(slots=True)
class RunServer:
    """The routes of the server for one run."""

    session: aiohttp.ClientSession
    url: str
    run_id: int
    token: str = field(repr=False)
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    async def take(self) -> Mapping[str, Any]:
        """Raises TakeRefused, ServerAway."""
        taken = await self._post("take", {"nonce": self.nonce, "place": f"{platform.node()}, process {os.getpid()}"})
        if not taken.keys() >= _TAKEN_KEYS:
            raise TakeRefused(f"{self.url} does not answer as a server of herdbeat: check callback of the executor")
        return taken

    async def report(
        self, sequence: int = 0, text: str = "", result: str = "", *, wants_told: bool = False
    ) -> Mapping[str, Any]:
        body = {"nonce": self.nonce, "sequence": sequence, "log": text, "result": result, "wants_told": wants_told}
        return await self._post("report", body)

    async def _post(self, verb: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        address = f"{self.url}/api/v1/exec/{self.run_id}/{verb}"
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            async with self.session.post(address, json=body, headers=headers, allow_redirects=False) as answer:
                data = await answer.json(content_type=None)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ServerAway(f"{type(error).__name__}: {error}") from error
        if not isinstance(data, dict) or (status != HTTPStatus.OK and status not in _REFUSALS):
            raise ServerAway(f"HTTP {status}", has_answered=True)
        if status in _REFUSALS:
            raise TakeRefused(str(data.get("detail") or f"HTTP {status}"))
        return data


def read_token(token_file: Path) -> str:
    """Raises UsageError."""
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token file cannot be read: {error}", hint="Correct --token-file.") from error


async def execute_remote_run(run_id: int, url: str, token: str) -> int:
    """Run one run, and return the exit status. Raises UsageError for an address that is not safe."""
    if not is_safe_callback(url):
        raise UsageError("The address must be https, unless it is loopback.", hint="Correct callback of the executor.")
    timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        server = RunServer(session, url.rstrip("/"), run_id, token)
        try:
            taken, taken_at = await _take(server)
        except TakeRefused as error:
            log.warning("run not taken run=%s reason=%s nothing was started", run_id, error)
            return EXIT_REFUSED
        except ServerAway as error:
            log.warning("server not reached run=%s error=%s nothing was started", run_id, error)
            return EXIT_UNREACHABLE
        server.token = taken["secret"]
        return await _execute(server, taken, taken_at)


async def _take(server: RunServer) -> tuple[Mapping[str, Any], float]:
    """Return what the run needs, and when its lease began: with the request that was answered."""
    sent_at = boot_time()

    async def take() -> Mapping[str, Any]:
        nonlocal sent_at
        sent_at = boot_time()
        return await server.take()

    return await _retry(take, TAKE_PATIENCE_S), sent_at


async def _execute(server: RunServer, taken: Mapping[str, Any], taken_at: float) -> int:
    environment = {str(name): str(value) for name, value in taken["environment"].items()}
    register_secrets(
        [server.token, str(taken["run_token"]), *(environment[name] for name in environment if is_secret_name(name))]
    )
    try:
        work = load_work(taken["data"], SystemClock().now())
    except (HerdbeatError, ValueError, KeyError, TypeError, AttributeError) as error:
        return await _report_result(server, _fail_unreadable(error))
    with open_exec_folder(SystemClock().now()) as state:
        settings = RunnerSettings(
            state_dir=state,
            environ={**os.environ, **environment},
            variables={**os.environ, **taken.get("variables", {})},
            home=Path(work.folder or "."),
            zone=detect_system_zone(os.environ),
            own_tools=OwnTools(
                ledger=_GrantedTools(server, RunGrant(token=taken["run_token"], note=taken["note"])),
                url=server.url,
                public_url=server.url,
            ),
        )
        async with open_runners(settings, SystemClock()) as runners:
            supervised = _Supervised(server, work, settings, taken_at)
            outcome = await supervised.run(runners)
            await supervised.send_rest_of_log()
        return await _report_result(server, outcome)


def _fail_unreadable(error: Exception) -> Outcome:
    """Return the outcome of a run whose job is of another version. Unreported, it would wait until its lease ends."""
    log.error("job not read error=%r nothing was started", error)
    reason = f"herdbeat {__version__} on the engine cannot read this run; install the version of the node there"
    return Outcome(status=RunStatus.FAILED, error=reason)


async def _report_result(server: RunServer, outcome: Outcome) -> int:
    """Offer the outcome until the server has it, and return the exit status."""
    try:
        answer = await _retry(lambda: server.report(result=_fit(outcome)), RESULT_PATIENCE_S)
    except (TakeRefused, ServerAway) as error:
        log.warning("result not accepted run=%s error=%s", server.run_id, error)
        return EXIT_REFUSED
    if answer["stop"]:
        log.warning("result not accepted run=%s error=%s", server.run_id, answer["stop"])
        return EXIT_REFUSED
    return EXIT_OK


@dataclass(frozen=True, slots=True)
class _GrantedTools:
    """The token of our tools, which the server has issued with the run, and the report of the agent through them."""

    server: RunServer
    granted: RunGrant

    async def grant(self, run_id: int) -> RunGrant:  # noqa: ARG002 - the shape of a ledger of tools
        return self.granted

    async def read_report(self, run_id: int) -> RunReport | None:  # noqa: ARG002
        try:
            report = (await self.server.report(wants_told=True)).get("told")
        except (TakeRefused, ServerAway) as error:
            raise StoreUnavailable(f"The server was not reached: {error}", hint="") from error
        return None if report is None else from_json(RunReport, report, load_trigger)


class _Supervised:
    """One program, as long as we may run it: until its time is over, it is stopped, or the lease is lost."""

    def __init__(self, server: RunServer, work: RemoteWork, settings: RunnerSettings, taken_at: float) -> None:
        self._server = server
        self._work = work
        self._logs = settings.state_dir / LOGS_FOLDER
        self._renewed_at = taken_at
        self._lease_s = work.lease.total_seconds()
        self._sequence = 0
        self._offset = 0
        self._unsent = ""
        self._rest: deque[str] = deque()
        self._stop_reason = ""

    async def run(self, runners: RunnerRegistry) -> Outcome:
        self._renew_reaper_lease(runners)
        program = asyncio.create_task(_run_work(runners, self._work), name="program")
        others = [
            asyncio.create_task(self._renew(program, runners), name="renew"),
            asyncio.create_task(self._watch_lease(program), name="lease"),
        ]
        with _stop_on_signals(lambda: self._stop(program, "the engine ended it")):
            try:
                return self._check_failure_after_lease(await program)
            except asyncio.CancelledError as error:
                interrupted = Outcome(status=RunStatus.INTERRUPTED, error=self._stop_reason or "it was stopped")
                return add_report(interrupted, attached_report(error))
            finally:
                for each in others:
                    each.cancel()
                await asyncio.wait(others)

    def _renew_reaper_lease(self, runners: RunnerRegistry) -> None:
        """Let the reaper end the program with the lease: this process may be stopped, or too busy to do it."""
        runners.renew(timedelta(seconds=max(0.0, self._lease_s - (boot_time() - self._renewed_at))))

    def _is_lease_over(self) -> bool:
        """Whether the program has to end now, so that it has ended when its run may start elsewhere."""
        return boot_time() - self._renewed_at > self._lease_s * LEASE_STOP_FRACTION

    def _check_failure_after_lease(self, outcome: Outcome) -> Outcome:
        """Return the outcome; interrupted for a failure after the lease, because the reaper has ended that program."""
        if outcome.status is not RunStatus.FAILED or not self._is_lease_over():
            return outcome
        return replace(outcome, status=RunStatus.INTERRUPTED, code=None, error=self._describe_lost_lease())

    def _describe_lost_lease(self) -> str:
        return f"its server had no message from it for most of its lease of {self._lease_s:g} s"

    async def _watch_lease(self, program: "asyncio.Task[Outcome]") -> None:
        """End the program in time. By CLOCK_BOOTTIME: it cannot be set, and goes on while the machine sleeps."""
        while not self._is_lease_over():
            left_s = self._renewed_at + self._lease_s * LEASE_STOP_FRACTION - boot_time()
            await asyncio.sleep(min(max(left_s, 0.01), MAX_LEASE_LOOK_S))
        self._stop(program, self._describe_lost_lease())

    def _stop(self, program: "asyncio.Task[Outcome]", reason: str) -> None:
        self._stop_reason = self._stop_reason or reason
        program.cancel()

    async def _renew(self, program: "asyncio.Task[Outcome]", runners: RunnerRegistry) -> None:
        """Report until the program ends, or its lease: after that another node may have given the run up."""
        interval_s = min(self._lease_s / 10, MAX_RENEW_INTERVAL_S)
        while True:
            await asyncio.sleep(interval_s * random.uniform(0.5, 1.0))  # noqa: S311 -- spreads reports
            sent_at = boot_time()
            if self._is_lease_over():
                return
            try:
                answer = await self._send_log_part()
            except ServerAway as error:
                log.warning("report not sent run=%s error=%s", self._server.run_id, error)
                continue
            except TakeRefused as error:
                self._stop(program, f"its server refused it: {error}")
                return
            self._renewed_at = sent_at
            self._renew_reaper_lease(runners)
            if answer["stop"] or answer["is_over"]:
                self._stop(program, str(answer["stop"]) or "it has ended already")
                return

    async def _send_log_part(self) -> Mapping[str, Any]:
        """Send the next part of the log. One whose answer did not arrive is sent again as it was: the server may have
        it, and takes the same number for the same part.
        """
        if not self._unsent:
            self._unsent = self._take_next_part()
            self._sequence += bool(self._unsent)
        answer = await self._server.report(self._sequence if self._unsent else 0, self._unsent)
        self._unsent = ""
        return answer

    async def send_rest_of_log(self) -> None:
        """Send what is left of the log, before the result: after that nothing is accepted.

        A server that is away gets both when it is back. One that answers with errors may do so because of the log.
        """
        until = boot_time() + RESULT_PATIENCE_S
        while True:
            try:
                await _retry(self._send_log_part, self._lease_s)
                if not self._has_more():
                    return
            except TakeRefused:
                return
            except ServerAway as error:
                if error.has_answered or boot_time() > until:
                    log.warning("end of log not sent run=%s error=%s", self._server.run_id, error)
                    return

    def _has_more(self) -> bool:
        if not self._unsent:
            self._unsent = self._take_next_part()
            self._sequence += bool(self._unsent)
        return bool(self._unsent)

    def _take_next_part(self) -> str:
        """Return the next whole records of the log. One that is too long for a request is divided."""
        if not self._rest:
            text = self._read_log()
            self._offset += len(text.encode())
            self._rest.extend(split_record(text) if len(text) > MAX_LOG_PART_BYTES else (text,))
        return self._rest.popleft()

    def _read_log(self) -> str:
        file = next(self._logs.glob(f"*/*{LOG_SUFFIX}"), None) if self._logs.exists() else None
        if file is None:
            return ""
        with file.open("rb") as opened:
            opened.seek(self._offset)
            data = opened.read(MAX_LOG_PART_BYTES)
            if b"\n" not in data and len(data) == MAX_LOG_PART_BYTES:
                data += opened.readline()
        return data[: data.rfind(b"\n") + 1].decode("utf-8", "replace")


def split_record(text: str) -> list[str]:
    """Return the records of a text as parts that fit into one request each. Pieces of a long line join again."""
    parts: list[str] = []
    for line in text.split("\n")[:-1]:
        try:
            record = json.loads(line)
            words = str(record["text"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # cut by a full disk
        for start in range(0, len(words), MAX_RECORD_CHARS):
            piece = {**record, "text": words[start : start + MAX_RECORD_CHARS]}
            parts.append(json.dumps(piece, ensure_ascii=False) + "\n")
    return parts


async def _run_work(runner: Runner, work: RemoteWork) -> Outcome:
    """Return how the program ended, as on a node."""
    job, timeout = work.job, work.timeout
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            return await runner.run(job)
    except TimeoutError as over_time:
        outcome = describe_timeout(timeout, attached_report(over_time))
        survivors = await runner.wait_stopped(job.claim.run_id)
        return replace(outcome, error=f"{outcome.error}; {survivors}") if survivors else outcome
    except HerdbeatError as error:
        return Outcome(status=RunStatus.FAILED, error=f"{error.message} {error.hint}".strip())


def _fit(outcome: Outcome) -> str:
    """Return the outcome as JSON that the server accepts: of a very large one, without what is longest."""
    text = dump_outcome(outcome)
    if len(text) > MAX_RESULT_BYTES:
        slim = replace(outcome, response=None, is_response_too_large=True, output=outcome.output[-8_192:])
        if slim.agent is not None:
            slim = replace(slim, agent=replace(slim.agent, prompt="", steps=slim.agent.steps[:100]))
        text = dump_outcome(slim)
    return text


async def _retry(call: Callable[[], Awaitable[Mapping[str, Any]]], patience_s: float) -> Mapping[str, Any]:
    """Call until the server answers. Raises ServerAway when the patience is over, and what the call raises."""
    until, delay = boot_time() + patience_s, 0.2
    while True:
        try:
            answer = await call()
        except ServerAway:
            if boot_time() > until:
                raise
            await asyncio.sleep(delay)
            delay = min(2 * delay, 5.0)
        else:
            return answer


@contextmanager
def _stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Engines end a job by a signal. Ray kills it three seconds later."""
    loop = asyncio.get_running_loop()
    handle_stop_signals(loop, stop, _STOP_SIGNALS)
    try:
        yield
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
