"""A minimal node for tests to kill: runs one shell script through the real runners until it ends.

HOLDER in the script is replaced by the pid of a forked process, as a user's function may start one, that keeps all of
its files open until it is killed.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.support.runner_jobs import command_spec, make_job, shell_spec

from herdbeat.clock import SystemClock
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings


async def main(state_dir: Path, script: str) -> None:
    async with open_runners(RunnerSettings(state_dir=state_dir, environ=dict(os.environ)), SystemClock()) as runners:
        await runners.run(make_job(command_spec("true")))  # now the reaper and the pipe to it exist
        if "HOLDER" in script:
            script = script.replace("HOLDER", str(fork_file_holder()))
        await runners.run(make_job(shell_spec(script)))


def fork_file_holder() -> int:
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
