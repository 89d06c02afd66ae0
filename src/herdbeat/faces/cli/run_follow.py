"""`herdbeat run --wait`: the output of a run while it is written, and how it ended."""

import time
from typing import Any

from herdbeat.domain.ids import short_id
from herdbeat.domain.records import RunRecord
from herdbeat.domain.run import RunStatus
from herdbeat.durations import measured_duration
from herdbeat.errors import StoreUnavailable
from herdbeat.faces.cli.ledger import Ledger
from herdbeat.faces.cli.marks import STATUSES, result_word
from herdbeat.faces.cli.terminal import printable
from herdbeat.faces.cli.world import World
from herdbeat.runners.log_reader import Line, LogFollower, SharedLog, find_log
from herdbeat.service.objects import run_object
from herdbeat.service.questions import find_run

RUN_FAILED = 5
LOOK = 0.1
ASK_EVERY = 10
"""Looks after which the ledger is asked for the words of a run on another node."""


def follow(world: World, ledger: Ledger, run: RunRecord, answer: dict[str, Any], *, is_json: bool) -> int:
    """Until the run has ended. Ctrl+C stops the watching, never the run."""
    output = _Output(ledger, run.id)
    ended = run
    while ended.status is RunStatus.RUNNING:
        _show(world, output.more(), is_json=is_json)
        time.sleep(LOOK)
        ended = _again(ledger, run)
    _show(world, [*output.more(), *output.rest()], is_json=is_json)
    answer["result"] = run_object(ended)
    if not is_json:
        _conclude(world, ended)
    return 0 if ended.status is RunStatus.SUCCEEDED else RUN_FAILED


class _Output:
    """The log of a run, which is there only once the run has said something."""

    def __init__(self, ledger: Ledger, run_id: int) -> None:
        self._ledger = ledger
        self._run_id = run_id
        self._follower: LogFollower | None = None
        self._elsewhere = SharedLog(lambda: ledger.opened().output_of(run_id))
        self._looks = 0

    def more(self) -> list[Line]:
        if self._follower is None:
            path = find_log(self._ledger.state_dir, self._run_id)
            self._follower = None if path is None else LogFollower(path)
        if self._follower is not None:
            return list(self._follower.more())
        self._looks += 1
        return list(self._elsewhere.more()) if self._looks % ASK_EVERY == 0 else []

    def rest(self) -> list[Line]:
        """Asked when the run has ended: what it said on another node is in the ledger by then."""
        follower = self._follower or self._elsewhere
        return [*follower.more(), *follower.rest()]


def _again(ledger: Ledger, run: RunRecord) -> RunRecord:
    found = find_run(ledger.opened(), short_id(run.id))
    if found is None:
        raise StoreUnavailable(f"The run {short_id(run.id)} is no longer in the ledger.", hint="Was it pruned?")
    return found


def _show(world: World, lines: list[Line], *, is_json: bool) -> None:
    for line in [] if is_json else lines:
        world.terminal.say(f"  {printable(line.text)}")
    world.terminal.out.flush()


def _conclude(world: World, run: RunRecord) -> None:
    glyph, _, colour = STATUSES[run.status]
    spent = f" in {measured_duration(run.spent(run.finished_at))}" if run.finished_at else ""
    error = f"   {printable(run.error)}" if run.error else ""
    world.terminal.say(f"{world.terminal.style(glyph, colour)} {result_word(run)}{spent}{error}")
