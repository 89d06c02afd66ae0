"""A program begins with default signals, however its node was started: with nohup, in the background, as a service."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from herdbeat.platform import default_signals, list_inherited_ignores

ROOT = Path(__file__).parents[3]
NODE = """
import asyncio, os, signal, sys, threading
from pathlib import Path
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTTOU, signal.SIGRTMIN + 1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
from tests.support.runner_jobs import command_spec, make_job
from herdbeat.clock import SystemClock
from herdbeat.runners.registry import open_runners
from herdbeat.runners.settings import RunnerSettings

async def main():
    settings = RunnerSettings(state_dir=Path(sys.argv[1]), environ=dict(os.environ))
    async with open_runners(settings, SystemClock()) as runners:
        outcome = await runners.run(make_job(command_spec("grep", "^Sig[BI]", "/proc/self/status")))
        print(outcome.output)

if sys.argv[2] == "thread":
    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    thread.join()
else:
    asyncio.run(main())
print(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def _signals_of(mask: int) -> set[int]:
    """Return the signals of a mask, without the two that the C library keeps to itself and lets no program change."""
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_program_ignores_and_blocks_no_signal_although_its_node_does(tmp_path: Path, where: str) -> None:
    argv = [sys.executable, "-c", NODE, str(tmp_path), where]

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)

    *lines, node_still_blocks = done.stdout.split("\n")[:-1]
    found = {name: _signals_of(int(value, 16)) for name, _, value in (line.partition(":") for line in lines if line)}
    assert found == {"SigIgn": set(), "SigBlk": set()}
    assert node_still_blocks == "True"


def test_a_process_goes_on_ignoring_what_its_programs_must_not_ignore() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with default_signals() as preexec_fn:
            ignored = list_inherited_ignores()
        signal.raise_signal(signal.SIGHUP)  # the default would end this process
    finally:
        signal.signal(signal.SIGHUP, before)

    assert (preexec_fn, ignored) == (None, [])
