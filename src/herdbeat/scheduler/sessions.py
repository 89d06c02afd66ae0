"""Sessions of agents: which one a run resumes. One run at a time resumes a session; another begins a new one."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from herdbeat.clock import Clock
from herdbeat.domain.chat import thread_prefix
from herdbeat.domain.run import Claim
from herdbeat.store.base import Store

TakeSession = Callable[[Claim, str, timedelta], Awaitable[str | None]]
"""Returns the session that a run of this runtime resumes, if one was used within that time; None to begin a new one."""


async def no_session(claim: Claim, runtime: str, max_age: timedelta) -> str | None:  # noqa: ARG001 - its shape
    """For a node without a ledger of sessions: every run begins a new one."""
    return None


def take_sessions(store: Store, clock: Clock, host: str) -> TakeSession:
    """Return a function that takes sessions from the ledger. Their conversations are files of this host.

    A session is in use until its run is completed, also if the node dies meanwhile.
    """

    async def take_session(claim: Claim, runtime: str, max_age: timedelta) -> str | None:
        used_since = clock.now() - max_age
        return await store.write(
            lambda tx: tx.session_take(
                claim.schedule_id,
                runtime,
                host=host,
                run_id=claim.run_id,
                used_since=used_since,
                thread=thread_prefix(claim.dedup_id),
            )
        )

    return take_session
