"""Jobs, small programs and functions to wait for them, for the tests of the runners."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

from herdbeat.domain.decision import Source
from herdbeat.domain.policies import Catchup, Policies
from herdbeat.domain.run import Claim
from herdbeat.domain.target import CallableSpec, CommandSpec, Target, TargetSpec
from herdbeat.domain.timing import ScheduleSpec
from herdbeat.runners.base import Job
from herdbeat.runners.process.process_tree import identify, is_alive
from herdbeat.triggers.cron import Cron

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
NUMBERS = count(1)
PLAN = ScheduleSpec(
    trigger=Cron.parse("0 * * * *", ZoneInfo("UTC")),
    policies=Policies(zone=ZoneInfo("UTC"), timeout=timedelta(hours=1), catchup=Catchup.SKIP),
)


def make_job(spec: TargetSpec, prompt: str = "", run_id: int | None = None) -> Job:
    number = next(NUMBERS) if run_id is None else run_id
    claim = Claim(
        run_id=number,
        beat_id=number,
        schedule_id=1,
        target_id=1,
        label="scribe/hourly",
        dedup_id="cron:2026-03-02T12:00:00Z",
        due_at=NOON,
        source=Source.BASELINE_CRON,
        attempt=1,
        revision=1,
        plan=PLAN,
    )
    return Job(
        claim=claim,
        target=Target(name="scribe", spec=spec),
        prompt=prompt,
        deadline=NOON + timedelta(hours=1),
        fence=7,
    )


def command_spec(*argv: str, folder: str = "/", env: tuple[str, ...] = ()) -> CommandSpec:
    return CommandSpec(command=argv, working_directory=folder, env=env)


def shell_spec(script: str) -> CommandSpec:
    return command_spec("/bin/sh", "-c", script)


def callable_spec(name: str) -> CallableSpec:
    return CallableSpec(call=name)


def new_fifo(folder: Path) -> Path:
    path = folder / f"fifo{next(NUMBERS)}"
    os.mkfifo(path)
    return path


async def read_fifo(fifo: Path, within: float = 120) -> str:
    """Return what a program writes into the fifo, as soon as it does. Raises TimeoutError if none does.

    Not in a thread: one that waits for a writer can be neither cancelled nor ended, and so the tests would not end.
    """
    reader = asyncio.StreamReader()
    opened = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), opened
    )
    try:
        async with asyncio.timeout(within):
            return (await reader.read()).decode()
    finally:
        transport.close()


class ExitingProcess:
    """A process that is going to end. Its start time is read while it lives, so that a reused pid is not mistaken for
    it.
    """

    def __init__(self, pid: int) -> None:
        self._identity = identify(pid)

    async def wait_for_exit(self, within: float = 20) -> None:
        """Return once it has ended; raises TimeoutError if it does not."""
        async with asyncio.timeout(within):
            while await asyncio.to_thread(is_alive, self._identity):  # noqa: ASYNC110  it is not our child
                await asyncio.sleep(0.01)
