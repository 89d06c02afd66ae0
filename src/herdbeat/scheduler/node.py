"""A node from start to stop: register, serve, send heartbeats, stop softly and then hard, leave."""

import asyncio
import logging
import threading
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from herdbeat.errors import ClaimLost, SchedulerShutdownError, StoreLocked, StoreUnavailable
from herdbeat.events import GapDetected, NodeReady
from herdbeat.scheduler.complete import CompletionResult
from herdbeat.scheduler.loop import Loop, NodeParts, NodeSettings, can_always_start, log_task_failure
from herdbeat.scheduler.membership import Lease, NodeInfo, Registration, register_node, rescue_orphans
from herdbeat.scheduler.neighbours import NeighbourWatch
from herdbeat.scheduler.timers import DatabaseTimer, StallWatch
from herdbeat.store.base import SharedStore, Transaction
from herdbeat.threads import call_in_thread

log = logging.getLogger(__name__)


class Node:
    """One process that claims and runs. `serve` returns when it has stopped."""

    def __init__(self, parts: NodeParts, settings: NodeSettings, node_info: NodeInfo) -> None:
        self._parts = parts
        self._settings = settings
        self._build_node_info = node_info
        self._stop = asyncio.Event()
        self._hard_stop = asyncio.Event()
        self._notified = asyncio.Event()
        self._stop_timeout = timedelta(seconds=30)
        self._lease = Lease(settings.lease, parts.timer, parts.on_renewed) if parts.shared else None
        self._stall_watch = StallWatch(max(settings.lease / 3, 3 * settings.check_interval))
        self._neighbours = _open_neighbours(parts, settings, node_info)
        self.loop: Loop | None = None

    def stop(self, timeout: timedelta) -> None:
        """Start nothing new from now on; what still runs after the timeout is interrupted."""
        self._stop_timeout = timeout
        self._stop.set()
        if self.loop is not None:
            self.loop.stop()  # now, so that whoever asks next learns which runs the stop waits for

    def hard_stop(self) -> None:
        """Stop, and wait for no run."""
        self._stop.set()
        self._hard_stop.set()

    def wake(self) -> None:
        """Look now: something was written."""
        if self.loop is not None:
            self.loop.wake()

    def wake_outbox(self) -> None:
        """Send now: a message was written."""
        if self._parts.outbox is not None:
            self._parts.outbox.wake()

    def _on_notify(self) -> None:
        """Another node has changed something."""
        self._notified.set()
        if self._neighbours is not None:
            self._neighbours.wake()
        self.wake()

    async def serve(self) -> None:
        """Serve until stopped. Raises SchedulerShutdownError if it interrupted runs, or could not write results."""
        with self._stall_watch.running():
            if self._parts.shared is None:
                registration = await self._register_when_possible(None, StoreLocked)
                if registration is not None:
                    await self._serve_registered(registration)
            else:
                await self._serve_shared(self._parts.shared)

    async def _serve_shared(self, shared: SharedStore) -> None:
        """Serve until stopped. After the lease was lost, start again as a new node."""
        registration = await self._register_when_possible(None)
        with _subscribe_changes(shared, self._on_notify):
            while registration is not None and await self._serve_registered(registration):
                log.error("lease lost node=%s its runs are interrupted; the node rejoins", registration.node_id)
                shared.abandon_node()
                registration = await self._register_when_possible(registration.node_id)

    async def _register(self, previous_node_id: int | None) -> Registration:
        """Register as a new node. What it held as `previous_node_id` is rescued like the runs of dead nodes."""
        timer = self._parts.timer
        if isinstance(timer, DatabaseTimer):
            await timer.measure()
        sent_at = timer.read_clocks().boottime

        def register(tx: Transaction) -> Registration:
            reading = timer.read_clocks()
            reports = self._parts.lost_reports
            registration = register_node(tx, reading.wall, self._build_node_info, previous_node_id, reports)
            return replace(registration, reading=reading)

        registration = await self._parts.store.write(register)
        if self._lease is not None:
            self._lease.begin(sent_at)
        return registration

    async def _register_when_possible(
        self, previous_node_id: int | None, transient: type[StoreUnavailable] = StoreUnavailable
    ) -> Registration | None:
        """Register, and wait while the store has a transient error. Return None if it is stopped before it can.

        A database comes back from every outage; of a file, only a lock ends by itself.
        """
        timer, wait = self._parts.timer, self._settings.check_interval
        while not self._stop.is_set():
            try:
                return await self._register(previous_node_id)
            except transient as error:
                log.warning("join failed error=%s %s retry in %s", error, error.hint, wait)
            await timer.sleep_until(timer.now() + wait, self._stop)
        return None

    async def _serve_registered(self, registration: Registration) -> bool:
        """Serve until stopped, and return False; or until the lease is lost, and return True."""
        parts, timer = self._parts, self._parts.timer
        settings = replace(
            self._settings,
            node_id=registration.node_id,
            gaps=registration.gaps,
            first_reading=registration.reading,
            is_single_node=self._lease is None,
        )
        can_start = can_always_start if self._lease is None else self._lease.is_held
        self.loop = Loop(parts, settings, can_start, self._stall_watch.take, registration.adopted)
        if parts.work is not None:
            parts.work.fetcher.attach(self.loop)
        if parts.outbox is not None:
            parts.outbox.attach(registration.node_id)
        for gap in registration.gaps[-1:]:
            parts.listener(GapDetected(timer.now(), gap))
        parts.listener(NodeReady(timer.now(), registration.node_id, registration.interrupted))
        try:
            return await self._serve_until_stopped(self.loop, registration.node_id)
        finally:
            await self._leave(registration.node_id, is_store_unavailable=self.loop.completer.unwritten > 0)

    async def _serve_until_stopped(self, loop: Loop, node_id: int) -> bool:
        """First a soft stop, without new claims; after the timeout a hard stop, which interrupts what runs."""
        async with asyncio.TaskGroup() as tasks:
            heartbeat = tasks.create_task(self._heartbeat(loop, node_id), name="heartbeat")
            loop_task = tasks.create_task(loop.run(), name="loop")
            maintenance = (
                tasks.create_task(self._parts.maintenance(), name="maintenance")
                if self._parts.maintenance
                else heartbeat
            )
            stop_watch = tasks.create_task(self._watch_stop_requests(loop, node_id), name="stop requests")
            stop_wait = tasks.create_task(self._stop.wait(), name="stop")
            hard_stop_wait = tasks.create_task(self._hard_stop.wait(), name="hard stop")
            lease_watch = tasks.create_task(self._watch_lease(loop), name="lease")
            neighbours = tasks.create_task(self._watch_neighbours(loop, node_id), name="neighbours")
            for essential in (heartbeat, loop_task, maintenance, stop_watch, lease_watch, neighbours):
                essential.add_done_callback(log_task_failure)
            await asyncio.wait([loop_task, stop_wait, lease_watch], return_when=FIRST_COMPLETED)
            is_lost = lease_watch.done()
            loop.stop()
            grace_s = 0.0 if is_lost else self._stop_timeout.total_seconds()
            await asyncio.wait([loop_task, hard_stop_wait, lease_watch], timeout=grace_s, return_when=FIRST_COMPLETED)
            is_cut_short = lease_watch.done()
            loop.hard_stop()
            await asyncio.wait([loop_task])
            # A ledger that did not take the results takes nothing else now, and each attempt waits for its lock.
            can_send_rest = not is_lost and not self._hard_stop.is_set() and not loop.completer.unwritten
            if self._parts.work is not None and can_send_rest:
                await self._parts.work.settler.drain()
            if can_send_rest:
                await self._send_last_messages()
            for task in (heartbeat, maintenance, stop_watch, stop_wait, hard_stop_wait, lease_watch, neighbours):
                task.cancel()
        if is_lost and not self._stop.is_set():
            return True
        interrupted_count, unwritten = len(loop.interrupted_runs), loop.completer.unwritten
        if interrupted_count or unwritten:
            timeout = None if self._hard_stop.is_set() else self._stop_timeout
            raise _build_shutdown_error(interrupted_count, unwritten, timeout, is_cut_short=is_cut_short)
        return False

    async def _send_last_messages(self) -> None:
        if self._parts.on_stopping is not None:
            await self._parts.on_stopping()
        if self._parts.outbox is not None:
            await self._parts.outbox.drain()

    async def _watch_stop_requests(self, loop: Loop, node_id: int) -> None:
        """Cancel runs of this node on request of other nodes, until cancelled, also while the node drains.

        Only the node that has a run can end it, so the request waits in the ledger. Before there were such requests,
        `cancel` on another node found nothing to stop, and `overlap: cancel` waited for the run that it should have
        replaced. A notification may be lost, so the ledger is also polled.
        """
        shared, timer, check_interval = self._parts.shared, self._parts.timer, self._settings.check_interval
        while shared is not None:
            self._notified.clear()
            next_poll_at = timer.now() + check_interval
            try:
                await _apply_stop_requests(shared, loop, node_id)
            except StoreUnavailable as error:
                log.debug("stop requests not read error=%s retry in %s", error, check_interval)
            await timer.sleep_until(next_poll_at, self._notified)

    async def _watch_lease(self, loop: Loop) -> None:
        """Return when the lease is lost. A node that does not share its ledger has none to lose."""
        if self._lease is None:
            await asyncio.Event().wait()
            return
        async with asyncio.TaskGroup() as tasks:
            expiry_watch = tasks.create_task(self._lease.wait_lost(), name="lease by the clock")
            claim_lost = tasks.create_task(loop.lease_lost.wait(), name="lease by the store")
            await asyncio.wait([expiry_watch, claim_lost], return_when=FIRST_COMPLETED)
            self._lease.mark_lost()
            claim_lost.cancel()

    async def _heartbeat(self, loop: Loop, node_id: int) -> None:
        """Renew the lease at a third of it, so that two renewals may fail before it ends."""
        timer, lease = self._parts.timer, self._settings.lease
        never = asyncio.Event()
        while True:
            await timer.sleep_until(timer.now() + lease / 3, never)
            try:
                await self._renew(node_id)
                if self._parts.shared is not None:
                    await call_in_thread(self._parts.shared.end_abandoned_sessions)
                    await self._rescue(loop, node_id)
            except StoreUnavailable as error:
                log.warning("heartbeat not written error=%s %s retry in %s", error, error.hint, lease / 3)
            except ClaimLost:
                loop.lease_lost.set()

    async def _rescue(self, loop: Loop, node_id: int, ended_nodes: Sequence[int] = ()) -> None:
        """End the runs of dead nodes, or follow them where they go on elsewhere.

        One transaction takes a limited number, so it is repeated until none is left.
        """
        timer, reports = self._parts.timer, self._parts.lost_reports

        def rescue(tx: Transaction) -> CompletionResult:
            return rescue_orphans(tx, timer.now(), node_id, reports, ended_nodes)

        while (rescued := await self._parts.store.write(rescue)).completed or rescued.adopted:
            loop.on_rescue(rescued)
        if self._parts.outbox is not None:
            self._parts.outbox.reclaim()

    async def _watch_neighbours(self, loop: Loop, node_id: int) -> None:
        """Rescue the runs of nodes on this machine as soon as their processes have ended."""
        if self._neighbours is None:
            return

        async def rescue(ended_nodes: Sequence[int]) -> None:
            try:
                await self._rescue(loop, node_id, ended_nodes)
            except ClaimLost:
                loop.lease_lost.set()

        await self._neighbours.run(node_id, rescue, self._settings.lease / 3)

    async def _renew(self, node_id: int) -> None:
        timer = self._parts.timer
        sent_at = timer.read_clocks().boottime
        await self._parts.store.write(lambda tx: tx.renew_node(node_id, timer.now()))
        if self._lease is not None:
            self._lease.renew(sent_at)
        if isinstance(timer, DatabaseTimer):
            await timer.measure()

    async def _leave(self, node_id: int, *, is_store_unavailable: bool) -> None:
        """A store that is unavailable must not hide how the stop went; the next start uses the last heartbeat."""
        timer = self._parts.timer
        if is_store_unavailable:
            log.warning(
                "stop not recorded node=%s the ledger is unavailable; the next start uses the last heartbeat", node_id
            )
            return
        try:
            await self._parts.store.write(lambda tx: tx.leave_node(node_id, timer.now()))
        except ClaimLost:
            return  # the node is not registered any more
        except StoreUnavailable as error:
            log.warning("stop not recorded node=%s error=%s the next start uses the last heartbeat", node_id, error)


def _open_neighbours(parts: NodeParts, settings: NodeSettings, node_info: NodeInfo) -> NeighbourWatch | None:
    """Return what watches the other nodes of this machine; None if there are none, or the system does not show them."""
    if parts.shared is None or node_info.origin is None:
        return None
    return NeighbourWatch(parts.shared, parts.timer, node_info.origin, parts.has_leftovers, settings.check_interval)


async def _apply_stop_requests(shared: SharedStore, loop: Loop, node_id: int) -> None:
    """Cancel the runs that other nodes ask this one to stop.

    A run that was claimed a moment ago may not be active yet: its request stays for the next poll.
    """
    requests = await call_in_thread(shared.list_stop_requests, node_id)
    if requests:
        cancelled = [each.run_id for each in requests if loop.cancel(each.run_id, each.why, force=each.force)]
        await call_in_thread(shared.ack_stop_requests, node_id, cancelled)


@contextmanager
def _subscribe_changes(shared: SharedStore, wake: Callable[[], None]) -> Iterator[None]:
    """While the node serves, wake it as soon as another one notifies it of a change."""
    loop = asyncio.get_running_loop()
    thread = threading.Thread(
        target=shared.listen, args=(lambda: loop.call_soon_threadsafe(wake),), name="herdbeat-notify", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        shared.close()
        thread.join()


def _build_shutdown_error(
    interrupted_count: int, unwritten: int, timeout: timedelta | None, *, is_cut_short: bool = False
) -> SchedulerShutdownError:
    """Without a timeout, a person asked for the hard stop. One that is cut short has lost its lease meanwhile."""
    parts = []
    if interrupted_count:
        runs = "1 run" if interrupted_count == 1 else f"{interrupted_count} runs"
        parts.append(f"{runs} interrupted" if timeout is None else f"{runs} still active and interrupted")
    if unwritten:
        results, those = ("1 result", "that run") if unwritten == 1 else (f"{unwritten} results", "those runs")
        parts.append(f"{results} could not be written; {those} will be recorded as interrupted at the next start")
    how = "Stopped immediately" if timeout is None else f"The stop timed out after {timeout.total_seconds():g}s"
    if timeout is not None and is_cut_short:
        how = "The node lost its lease during the stop"
    return SchedulerShutdownError(
        f"{how}: {'; '.join(parts)}.",
        timed_out=timeout is not None and not is_cut_short,
        running_job_count=interrupted_count,
        unwritten_result_count=unwritten,
    )
