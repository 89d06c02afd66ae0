"""Runs on an engine, as their node sees them: submit, follow until the result arrives, give up, stop, let go.

The program reports to the ledger and not to the node. So a node that is killed loses nothing: the next one adopts what
was taken, and follows it from there.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from herdbeat.domain.executor import EngineAccess, ExecutorKind, ExecutorSettings
from herdbeat.domain.remote_run import NewRemoteRun, RemoteRun, RemoteRunState, RemoteStop, extend_lease
from herdbeat.domain.run import Claim, Outcome, RunStatus
from herdbeat.domain.target import AgentSpec, CommandSpec
from herdbeat.domain.token import TAKE_TOKEN_PREFIX
from herdbeat.errors import ClaimLost, StoreUnavailable
from herdbeat.executors.base import (
    NO_RESOURCES,
    Executor,
    ExecutorError,
    RemoteJob,
    RemoteState,
    RemoteStatus,
    choose_executor,
    find_run_obstacle,
    make_job_name,
)
from herdbeat.runners.base import Job, Runner, attach_report
from herdbeat.scheduler.remote_jobs import RemoteWork, dump_claim, dump_work, load_lease, load_outcome
from herdbeat.scheduler.timers import Timer
from herdbeat.store.base import FinishedRun, Store, Transaction

log = logging.getLogger(__name__)

STATUS_INTERVAL = timedelta(seconds=5)
"""How often an engine is asked about a run that nobody has taken."""

STOP_GRACE = timedelta(seconds=20)
"""How long a stopped run may take to report what it has done until then."""

SWEEP_INTERVAL = timedelta(seconds=60)
_STORE_ID_CHARS = 12
_PLACE_SEPARATOR = "; "
_RUN_KEY_BYTES = 32


class RunDetached(asyncio.CancelledError):
    """The node lets go of a run that goes on elsewhere: nothing is recorded, and the next node follows it."""


@dataclass(frozen=True, slots=True)
class LogWriter:
    """Adds records (stream, text) to the log of a run, and notes by herdbeat itself."""

    write: Callable[[str, str], None]
    note: Callable[[str], None]
    last_part: Callable[[], int]
    """Returns the number of the last part of a remote log that is in the file."""

    mark_part: Callable[[int], None]
    """Remembers in the file that this part is complete."""


OpenLog = Callable[[int], AbstractContextManager[LogWriter]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The engines of a node, how runs on them reach us, and what this node does by its labels.

    `server_url` is the address of our own server; `folder` is the fleet's.
    """

    settings: ExecutorSettings
    engines: Mapping[ExecutorKind, Executor]
    labels: frozenset[str] = frozenset()
    server_url: str = ""
    folder: str = ""

    def choose_kind(self, job: Job) -> ExecutorKind:
        kind = choose_executor(job.target.spec, self.settings, self.labels)
        spec = job.target.spec
        if kind is ExecutorKind.LOCAL or (isinstance(spec, AgentSpec | CommandSpec) and spec.executor is not None):
            return kind
        run = job.run_spec
        is_held = find_run_obstacle(
            kind, workspace=run.workspace, isolation=run.isolation, resumes_session=run.resume_session
        )
        return ExecutorKind.LOCAL if is_held else kind

    def callback_url(self, access: EngineAccess) -> str:
        return access.callback or self.server_url


@dataclass(slots=True)
class _Followed:
    """A remote run of this node: the newest that is known of it, and how far its log was read."""

    run: RemoteRun
    sequence: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    status: RemoteStatus | None = None
    status_at: datetime | None = None
    is_detached: bool = False
    is_adopted: bool = False
    is_placed: bool = False
    """Whether the log says where the run is."""

    is_stop_sent: bool = False
    """Whether the engine was asked to end the job."""


class RemoteRuns:
    """A runner for targets on an engine; all others go to the local one. It also follows runs that it adopts."""

    def __init__(self, local: Runner, context: EngineContext, store: Store, timer: Timer, open_log: OpenLog) -> None:
        self._local = local
        self._context = context
        self._store = store
        self._timer = timer
        self._open_log = open_log
        self.has_engines = bool(context.engines)
        self.followed: dict[int, _Followed] = {}
        """The runs of this node that take place elsewhere, by run id."""

        self.adopted: dict[int, RemoteRun] = {}
        """Runs that `resume` follows from where the node before has left them."""

        self._is_stopping = False
        self._store_id = ""
        self.poll_interval = timedelta(seconds=1)
        self.cancelled: dict[int, str] = {}
        """Runs that were cancelled on request, by number, with the reason. They end, also while the node stops."""

    def begin(self) -> None:
        """Called when the node starts, and again after it has lost its lease."""
        self._is_stopping = False

    # ── the runner ──

    async def run(self, job: Job) -> Outcome:
        kind = self._context.choose_kind(job)
        if kind is ExecutorKind.LOCAL:
            return await self._local.run(job)
        engine, access = self._context.engines.get(kind), self._context.settings.access(kind)
        if engine is None or access is None or not self._context.callback_url(access):
            why = f"this node has no executors.{kind}" if engine is None else "the fleet has no server to report to"
            return Outcome(status=RunStatus.FAILED, error=f"It cannot run on {kind}: {why}.")
        run_id = job.claim.run_id
        submitted, remote_job = await self._prepare(job, kind, access)
        followed = self.followed[run_id] = _Followed(submitted)
        try:
            refused = await self._submit(followed, engine, remote_job)
            return refused or await self._follow(followed, engine)
        finally:
            del self.followed[run_id]

    async def wait_stopped(self, run_id: int) -> str:
        return await self._local.wait_stopped(run_id)

    def allowance(self, job: Job) -> timedelta:
        """Return how much longer than its timeout a run may take here: its program counts that time itself."""
        spec, kind = job.target.spec, self._context.choose_kind(job)
        access = self._context.settings.access(kind)
        if access is None or not isinstance(spec, AgentSpec | CommandSpec):
            return timedelta(0)
        return (spec.resources or NO_RESOURCES).start_timeout + 2 * access.lease

    async def _prepare(self, job: Job, kind: ExecutorKind, access: EngineAccess) -> tuple[RemoteRun, RemoteJob]:
        """Write the run before it is submitted: what is not in the ledger cannot be taken."""
        spec, run_id, now = job.target.spec, job.claim.run_id, self._timer.now()
        assert isinstance(spec, AgentSpec | CommandSpec)
        resources, timeout = spec.resources or NO_RESOURCES, job.claim.plan.policies.timeout
        token = "" if kind is ExecutorKind.RAY else f"{TAKE_TOKEN_PREFIX}{secrets.token_hex(20)}"
        name = make_job_name(await self.store_id(), run_id, secrets.token_hex(4))
        token_file = self._context.settings.token_file(kind)
        work = RemoteWork(job, timeout, access.folder or self._context.folder, access.lease)
        new = NewRemoteRun(
            run_id=run_id,
            name=name,
            executor=kind,
            start_by=now + resources.start_timeout,
            job=dump_work(work),
            claim=dump_claim(job.claim),
            token_digest=sha256(token.encode()).hexdigest() if token else "",
        )
        await self._store.write(lambda tx: tx.remote_add(new, now))
        argv = (
            *access.command,
            "exec",
            str(run_id),
            "--url",
            self._context.callback_url(access),
            "--token-file",
            token_file,
        )
        run = RemoteRun(run_id=run_id, name=name, executor=kind, state=RemoteRunState.SUBMITTED, start_by=new.start_by)
        return run, RemoteJob(
            name=name,
            run_id=run_id,
            store_id=await self.store_id(),
            argv=argv,
            resources=resources,
            timeout=timeout,
            token_file=token_file,
            token=token,
        )

    async def store_id(self) -> str:
        """Return what the jobs of this ledger are named after, whichever of its nodes submits them."""
        if not self._store_id:
            new_key = secrets.token_hex(_RUN_KEY_BYTES)
            key = await self._store.write(lambda tx: tx.run_key_claim(new_key))
            self._store_id = sha256(f"store:{key}".encode()).hexdigest()[:_STORE_ID_CHARS]
        return self._store_id

    async def _submit(self, followed: _Followed, engine: Executor, job: RemoteJob) -> Outcome | None:
        """Submit until the engine has the job, or it is too late. Return the outcome if it was not submitted."""
        try:
            return await self._submit_until_known(followed, engine, job)
        except asyncio.CancelledError as error:  # also between two attempts: the job may have arrived with the first
            with self._open_log(job.run_id) as run_log:
                await self._detach_or_stop(followed, engine, run_log, error)
            raise

    async def _submit_until_known(self, followed: _Followed, engine: Executor, job: RemoteJob) -> Outcome | None:
        delay = timedelta(seconds=1)
        while True:
            try:
                await engine.submit(job)
            except ExecutorError as error:
                log.warning("job not submitted run=%s executor=%s error=%s", job.run_id, followed.run.executor, error)
                # An answer that was lost looks the same as an engine that is away: the job may be there.
                if not await self._is_submitting(followed):
                    return None
                is_late = followed.run.start_by <= self._timer.now()
                if (error.is_permanent or is_late) and await self._end_untaken(followed):
                    # Whatever has arrived is refused when it starts. The sweep ends it, which knows our jobs by label.
                    status = RunStatus.FAILED if error.is_permanent else RunStatus.INTERRUPTED
                    return Outcome(status=status, error=f"not started: {error.message} {error.hint}".strip())
                await self._sleep(followed, delay)
                delay = min(2 * delay, timedelta(seconds=15))
            else:
                return None

    async def _is_submitting(self, followed: _Followed) -> bool:
        """Whether nobody has taken the run, or asked it to end. A ledger that is away for a while changes nothing."""
        run_id = followed.run.run_id
        try:
            run = await self._store.write(lambda tx: tx.remote_find(run_id))
        except StoreUnavailable as error:
            log.debug("remote run not read run=%s error=%s", run_id, error)
            return True
        return run is not None and run.state is RemoteRunState.SUBMITTED and run.stop is None

    # ── following ──

    async def resume(self, claim: Claim) -> FinishedRun:
        """Follow a run that another node, or this one before its restart, has submitted."""
        run = self.adopted.pop(claim.run_id)
        followed = self.followed[claim.run_id] = _Followed(run, is_adopted=True)
        followed.is_placed = run.state is RemoteRunState.TAKEN
        engine = self._context.engines.get(run.executor)
        try:
            outcome = await self._follow(followed, engine)
        finally:
            del self.followed[claim.run_id]
        return FinishedRun(claim.run_id, claim.due_at, outcome)

    async def _follow(self, followed: _Followed, engine: Executor | None) -> Outcome:
        run_id = followed.run.run_id
        with self._open_log(run_id) as run_log:
            if followed.is_adopted:  # parts that the node before has written may still be in the ledger
                followed.sequence = run_log.last_part()
                await self._describe_place(followed, engine)
            try:
                while True:
                    await self._refresh(followed, run_log)
                    self._detach_if_stopping(followed)
                    outcome = await self._try_decide(followed, engine)
                    if outcome is not None:
                        return outcome
                    await self._sleep(followed, self.poll_interval)
            except ClaimLost as error:  # this node has lost its lease: the node that adopts the run follows it
                raise RunDetached from error
            except asyncio.CancelledError as error:
                await self._detach_or_stop(followed, engine, run_log, error)
                raise

    async def _describe_place(self, followed: _Followed, engine: Executor | None) -> None:
        """Let all screens say what is odd about an adopted run: that this node cannot ask its engine about it."""
        run = followed.run
        status = None if engine is None else await self._ask(followed, engine)
        is_unknown = status is not None and status.state is RemoteState.UNKNOWN and status.is_reachable
        place = run.place.partition(_PLACE_SEPARATOR)[0]
        if status is None:
            place += f"{_PLACE_SEPARATOR}executors.{run.executor} is not configured, but the run reports its end itself"
        elif is_unknown:
            place += f"{_PLACE_SEPARATOR}{run.executor} does not know its job, but the run reports its end itself"
        if place != run.place:
            followed.run = replace(run, place=place)
            with suppress(StoreUnavailable):
                await self._store.write(lambda tx: tx.remote_set_place(run.run_id, place))

    async def _refresh(self, followed: _Followed, run_log: LogWriter) -> None:
        """Read what is new in the ledger. A ledger that is away for a while changes nothing."""
        run_id, after = followed.run.run_id, followed.sequence

        def read(tx: Transaction) -> tuple[RemoteRun | None, list[tuple[int, str]]]:
            return tx.remote_find(run_id), tx.remote_log(run_id, after)

        try:
            run, parts = await self._store.write(read)
        except StoreUnavailable as error:
            log.debug("remote run not read run=%s error=%s", run_id, error)
            return
        if run is None:
            run = replace(followed.run, state=RemoteRunState.ENDED)
        if run.place and not followed.is_placed:
            followed.is_placed = True
            run_log.note(f"runs on {run.executor}, {run.place}, as {run.name}")
        for sequence, text in parts:
            followed.sequence = sequence
            _append_records(run_log, text)
            run_log.mark_part(sequence)
        followed.run = run

    async def _try_decide(self, followed: _Followed, engine: Executor | None) -> Outcome | None:
        """Return the outcome of a run that has ended; None while it has not, or the ledger cannot be asked."""
        try:
            return await self._decide(followed, engine)
        except StoreUnavailable as error:
            log.debug("remote run not decided run=%s error=%s", followed.run.run_id, error)
            return None

    async def _decide(self, followed: _Followed, engine: Executor | None) -> Outcome | None:
        """Return the outcome of a run that has ended, or that is given up."""
        run, now = followed.run, self._timer.now()
        if run.result:
            await self._store.write(lambda tx: tx.remote_end(run.run_id))
            return _apply_stop(run, _read_result(run))
        if run.state is RemoteRunState.SUBMITTED:
            return await self._decide_untaken(followed, engine, now)
        if run.has_lapsed(now) and await self._store.write(lambda tx: tx.remote_end_lapsed(run.run_id, now)):
            status = await self._ask(followed, engine)
            await self._cancel_job(run, engine)
            said = f"; {run.executor} says: {status.reason}" if status.reason else ""
            lost = Outcome(status=RunStatus.INTERRUPTED, error=f"its process on {run.place} was lost{said}")
            return _apply_stop(run, lost)
        if run.state is RemoteRunState.ENDED:
            return _apply_stop(run, Outcome(status=RunStatus.INTERRUPTED, error="it was given up"))
        if run.stop is not None and not followed.is_stop_sent:
            # Its process reads the same in the answer to its next report, and reports how its program ended.
            followed.is_stop_sent = True
            await self._cancel_job(run, engine)
        return None

    async def _decide_untaken(self, followed: _Followed, engine: Executor | None, now: datetime) -> Outcome | None:
        run = followed.run
        is_due = followed.status_at is None or followed.status_at + STATUS_INTERVAL <= now
        status = await self._ask(followed, engine) if is_due or run.is_overdue(now) else followed.status
        assert status is not None
        is_lost = status.state is RemoteState.ENDED or (status.state is RemoteState.UNKNOWN and status.is_reachable)
        is_over = is_lost or run.is_overdue(now) or run.stop is not None
        if not is_over or not await self._end_untaken(followed):
            return None
        await self._cancel_job(run, engine)
        if run.stop is not None:
            return Outcome(status=run.stop.status, error=run.stop.why)
        if is_lost:
            return Outcome(status=RunStatus.INTERRUPTED, error=f"{run.executor} did not run it: {status.reason}")
        said = status.reason or "it still waits there"
        return Outcome(
            status=RunStatus.INTERRUPTED, error=f"{run.executor} did not start it within start_timeout: {said}"
        )

    async def _ask(self, followed: _Followed, engine: Executor | None) -> RemoteStatus:
        gone = RemoteStatus(state=RemoteState.UNKNOWN, reason="this node has no such executor", is_reachable=False)
        followed.status = gone if engine is None else await engine.get_status(followed.run.name)
        followed.status_at = self._timer.now()
        return followed.status

    async def _end_untaken(self, followed: _Followed) -> bool:
        run_id = followed.run.run_id
        return await self._store.write(lambda tx: tx.remote_end_untaken(run_id))

    async def _cancel_job(self, run: RemoteRun, engine: Executor | None) -> None:
        """Let the engine end a job. If it cannot now, the sweep does later, and its process is refused meanwhile."""
        try:
            if engine is not None:
                await engine.cancel(run.name)
        except ExecutorError as error:
            log.warning("job not cancelled name=%s error=%s the sweep tries again", run.name, error)

    async def _sleep(self, followed: _Followed, duration: timedelta) -> None:
        if followed.is_detached:
            raise RunDetached
        await self._timer.sleep_until(self._timer.now() + duration, followed.wake)
        followed.wake.clear()
        if followed.is_detached:
            raise RunDetached

    # ── stopping and letting go ──

    def detach_taken(self) -> None:
        """The node stops: what runs elsewhere goes on there, and the next node follows it."""
        self._is_stopping = True
        for each in self.followed.values():
            self._detach_if_stopping(each)
            each.wake.set()  # one that has been taken a moment ago is seen now

    def _detach_if_stopping(self, followed: _Followed) -> None:
        run = followed.run
        if self._is_stopping and run.state is RemoteRunState.TAKEN and not run.result:
            followed.is_detached = run.run_id not in self.cancelled

    def is_detached(self, run_id: int) -> bool:
        followed = self.followed.get(run_id)
        return followed is not None and followed.is_detached

    async def _detach_or_stop(
        self, followed: _Followed, engine: Executor | None, run_log: LogWriter, error: asyncio.CancelledError
    ) -> None:
        """Detach a run that goes on, or stop it. Its report until then is attached to the cancellation."""
        run_id = followed.run.run_id
        if isinstance(error, RunDetached) or followed.is_detached:
            raise RunDetached from error
        if self._is_stopping and run_id not in self.cancelled and not await self._end_untaken(followed):
            raise RunDetached from error
        stopping = asyncio.ensure_future(self._stop_and_wait(followed, engine, run_log))
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as again:
                # By a person who forces it: its program still runs, and only its own process can end it sooner.
                if self._is_stopping:  # the request is in the ledger, and the next node follows it
                    stopping.cancel()
                    raise RunDetached from again
        stopping.result()
        if followed.run.result and (report := _read_result(followed.run).agent) is not None:
            attach_report(error, report)

    async def _stop_and_wait(self, followed: _Followed, engine: Executor | None, run_log: LogWriter) -> None:
        """Return once nothing of a run can still be running: before that the next beat must not start."""
        await self._stop(followed, engine)
        until = self._timer.now() + STOP_GRACE
        while not followed.run.result:
            await self._refresh(followed, run_log)
            if followed.run.state is not RemoteRunState.TAKEN or await self._is_stopped(followed, engine, until):
                break
            followed.wake.clear()
            await self._timer.sleep_until(self._timer.now() + self.poll_interval / 4, followed.wake)
        await self._store.write(lambda tx: tx.remote_end(followed.run.run_id))

    async def _is_stopped(self, followed: _Followed, engine: Executor | None, until: datetime) -> bool:
        """Whether nothing can run any more of a run without a result: its lease or its job is over.

        The next beat of its schedule may start then. An engine that is away says nothing about the job.
        """
        now = self._timer.now()
        if now < until:
            return False
        if followed.run.has_lapsed(now):
            return True
        is_due = followed.status_at is None or followed.status_at + STATUS_INTERVAL <= now
        status = await self._ask(followed, engine) if is_due else followed.status
        return status is not None and status.state is RemoteState.ENDED

    def _describe_stop(self, run_id: int) -> RemoteStop:
        if run_id in self.cancelled:
            return RemoteStop(RunStatus.CANCELLED, self.cancelled[run_id])
        if self._is_stopping:
            return RemoteStop(RunStatus.INTERRUPTED, "its node has stopped")
        return RemoteStop(RunStatus.TIMED_OUT, "exceeded its timeout")

    async def _stop(self, followed: _Followed, engine: Executor | None) -> None:
        run = followed.run
        why = str(self._describe_stop(run.run_id))

        def stop(tx: Transaction) -> None:
            tx.remote_stop(run.run_id, why)
            tx.remote_end_untaken(run.run_id)

        await self._store.write(stop)
        await self._cancel_job(run, engine)

    # ── leftovers ──

    async def sweep_forever(self) -> None:
        """End jobs of this ledger that no open run has, now and then."""
        never = asyncio.Event()
        while True:
            for kind, engine in self._context.engines.items():
                try:
                    await self.sweep(kind, engine)
                except (ExecutorError, StoreUnavailable) as error:
                    log.warning("leftovers not swept executor=%s error=%s", kind, error)
            await self._timer.sleep_until(self._timer.now() + SWEEP_INTERVAL, never)

    async def sweep(self, kind: ExecutorKind, engine: Executor) -> int:
        """Cancel the jobs of runs that have ended; return how many there were. Raises ExecutorError."""
        # First the engine, then the ledger: a job that is submitted in between is known to both.
        jobs = await engine.list_leftovers(await self.store_id())
        live = set(await self._store.write(lambda tx: tx.remote_live_names(kind))) if jobs else set()
        leftovers = [name for name in jobs if name not in live]
        for name in leftovers:
            log.warning("leftover job cancelled executor=%s name=%s", kind, name)
            await engine.cancel(name)
        return len(leftovers)


def _append_records(run_log: LogWriter, text: str) -> None:
    for line in text.split("\n"):  # splitlines() also splits at characters that stand in records, such as U+2028
        if not line:
            continue
        try:
            record = json.loads(line)
            run_log.write(str(record["stream"]), str(record["text"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            run_log.note("a part of the log could not be read")


def _read_result(run: RemoteRun) -> Outcome:
    try:
        return load_outcome(run.result)
    except ValueError as error:
        return Outcome(status=RunStatus.FAILED, error=f"its process on {run.place} sent no readable result: {error}")


def _apply_stop(run: RemoteRun, outcome: Outcome) -> Outcome:
    """A run that was interrupted because it was to end has the status that was asked for."""
    if run.stop is None or outcome.status is not RunStatus.INTERRUPTED:
        return outcome
    return replace(outcome, status=run.stop.status, error=run.stop.why)


def describe_lost_run(tx: Transaction, run_id: int) -> Outcome:
    """Return how an open run of a dead node has ended that does not go on elsewhere."""
    run, lost = tx.remote_find(run_id), Outcome(status=RunStatus.INTERRUPTED, error="its node died")
    return lost if run is None else _apply_stop(run, lost)


def adopt_remote_run(tx: Transaction, now: datetime, node_id: int, run_id: int) -> RemoteRun | None:
    """Adopt an open run of a dead node if it goes on elsewhere; None if it ends with its node.

    One that nobody has taken ends: a process that comes for it later is refused.
    """
    run = tx.remote_find(run_id)
    if run is None or tx.remote_end_untaken(run_id) or (run.state is RemoteRunState.ENDED and not run.result):
        return None
    lease_until = None if run.result else extend_lease(run, now, load_lease(tx.remote_job(run_id)[0]))
    if lease_until is not None:
        tx.remote_extend(run_id, lease_until)
    elif run.has_lapsed(now) and tx.remote_end_lapsed(run_id, now):
        return None
    tx.remote_adopt(run_id, node_id)
    return tx.remote_find(run_id)
