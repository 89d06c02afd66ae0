"""What needs attention: one line for each cause, and none for what heals itself."""

from pathlib import Path
from zoneinfo import ZoneInfo

from tests.server.conftest import ServedFleet

from herdbeat.service.commands.base import Actor, PauseSchedules
from herdbeat.service.queries.attention import AttentionCause, AttentionList, read_attention
from herdbeat.service.queries.status import read_status

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
