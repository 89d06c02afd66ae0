"""What needs attention: one line for each cause, and none for what heals itself."""

import errno
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.server.conftest import ServedFleet

from herdbeat.domain.policies import Budget
from herdbeat.domain.run import Outcome, RunStatus
from herdbeat.runners.process.child import explain_spawn_error
from herdbeat.service.commands.base import Actor, PauseSchedules
from herdbeat.service.queries.attention import AttentionCause, AttentionList, read_attention
from herdbeat.service.queries.status import read_status
from herdbeat.store.reader import SqliteReader
from herdbeat.testing.herd import MONDAY, ScriptedRunner, SimulatedHerd, open_herd

YOU = Actor(name="human:you")


def read(served: ServedFleet) -> AttentionList:
    with served.gateway.open() as handle:
        status = read_status(handle.require_reader(), handle.now, 1, zone=ZoneInfo("UTC"))
        return read_attention(handle.require_reader(), status)


def test_a_failing_schedule_is_listed_with_its_error_and_the_command_that_resets_it(tmp_path: Path) -> None:
    served = ServedFleet(tmp_path)

    (item,) = read(served).of(AttentionCause.FAILING)

    assert (item.schedule, item.fix) == ("triage/issues", "herdbeat reset triage/issues")
    assert "it broke" in item.text
    served.gateway.close()


def test_a_pause_without_an_end_will_never_run_and_one_with_an_end_will(tmp_path: Path) -> None:
    served = ServedFleet(tmp_path)
    until = served.clock.now().replace(hour=18)
    served.gateway.deliver(YOU, PauseSchedules(schedules=(2,), reason="holiday"))
    served.gateway.deliver(YOU, PauseSchedules(schedules=(3,), until=until))

    (item,) = read(served).of(AttentionCause.NEVER_RUNS)

    assert (item.schedule, item.fix) == ("triage/standup", "herdbeat resume triage/standup")
    assert item.text == 'paused without an end by human:you "holiday"'
    served.gateway.close()


async def read_herd(herd: SimulatedHerd) -> AttentionList:
    with closing(SqliteReader(herd.store.path)) as reader:
        return read_attention(reader, read_status(reader, herd.now, 1, zone=ZoneInfo("UTC")))


async def test_what_is_skipped_until_somebody_acts_is_listed_with_its_cause(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("gpu", every="10m", runs_on="gpu")
        herd.schedule("spender", every="10m", budget=Budget(runs_per_day=1))
        herd.schedule("fine", every="10m")
        await herd.advance(timedelta(minutes=30))

        found = await read_herd(herd)

        assert [(each.cause, each.schedule) for each in found.items] == [
            (AttentionCause.NEVER_RUNS, "gpu"),
            (AttentionCause.BUDGET, "spender"),
        ]
        assert "label gpu" in found.items[0].text


async def test_a_missing_program_will_never_run_instead_of_failing(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        error = explain_spawn_error(FileNotFoundError(errno.ENOENT, "no"), ("no-such-agent",), str(tmp_path), "/no")
        outcome = Outcome(status=RunStatus.FAILED, error=error)
        herd.schedule("agent", every="10m", runner=ScriptedRunner(outcomes=[outcome]))
        await herd.tick()

        found = await read_herd(herd)

        assert [(each.cause, "no-such-agent" in each.text) for each in found.items] == [
            (AttentionCause.NEVER_RUNS, True)
        ]


async def test_while_all_is_quiet_the_last_problem_is_named(tmp_path: Path) -> None:
    async with open_herd(tmp_path, MONDAY) as herd:
        herd.schedule("shaky", every="10m", runner=ScriptedRunner(fails=1))
        herd.schedule("fine", every="10m")
        await herd.advance(timedelta(hours=1))

        found = await read_herd(herd)

        assert found.items == ()
        assert found.last_problem is not None
        assert (found.last_problem.schedule, found.last_problem.at) == ("shaky", MONDAY)
