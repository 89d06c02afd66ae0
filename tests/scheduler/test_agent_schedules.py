"""Agents that add schedules to themselves: only where their file allows it, never past a limit or without an end."""

import json
import math
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from herdbeat.bootstrap.config import load_config
from herdbeat.domain.schedule import RunSpec
from herdbeat.errors import Conflict
from herdbeat.governor import Pause
from herdbeat.scheduler import control
from herdbeat.scheduler.agent_schedules import MAX_OWN_SCHEDULES
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.service.commands.base import (
    Actor,
    CreateOwnSchedule,
    DeleteOwnSchedule,
    DeleteSchedule,
    Scope,
    SelfChange,
    SelfCommand,
)
from herdbeat.service.commands.dispatch import execute
from herdbeat.store.base import ScheduleSnapshot, Transaction
from herdbeat.store.location import create_store, store_location
from herdbeat.timestamps import parse_timestamp

TEN = parse_timestamp("2026-04-01T10:00:00Z")
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FLEET = """\
version: 1
timezone: UTC
agents:
  - name: triage
    runtime: fake
    allow_create: true
    budget: { usd_per_day: 3 }
    schedules:
      check:
        every: 6h
        min_interval: 5m
        active_hours: "07:00-22:00"
        tool_policy: { mode: deny_all }
        isolation: bwrap
        prompt: Look.
      short: { every: 6h, ends_at: "2026-04-02T10:00:00Z", prompt: Look. }
      dear: { every: 6h, budget: { usd_per_day: 1 }, prompt: Look. }
  - name: victim
    runtime: fake
    schedules:
      work: { every: 1h, prompt: Work. }
"""


class Ledger:
    """A ledger with the fleet above; `ask` sends a command as a tool of an agent does."""

    def __init__(self, folder: Path) -> None:
        (folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")
        loaded = load_config(str(folder / "herdbeat.yaml"), {}, folder)
        fleet = loaded.fleet
        assert fleet is not None
        assert not loaded.errors
        self._fleet = fleet
        self._store = create_store(store_location(fleet))
        self._store.open()
        self.now: datetime = TEN
        self.write(lambda tx: apply_fleet(tx, fleet, TEN))

    def close(self) -> None:
        self._store.close()

    def write(self, work: Callable[[Transaction], Any]) -> Any:
        return self._store.write_now(work)

    def apply_again(self) -> None:
        self.write(lambda tx: apply_fleet(tx, self._fleet, self.now))

    def rows(self, target: str = "triage") -> dict[str, tuple[ScheduleSnapshot, RunSpec]]:
        def read(tx: Transaction) -> dict[str, tuple[ScheduleSnapshot, RunSpec]]:
            found = tx.schedule_list_by_target([tx.targets()[target][0]])
            numbers = [number for number, _ in found.values()]
            snapshots = tx.schedules(numbers)
            return {name: (snapshots[number], json.loads(row.brief)) for (_, name), (number, row) in found.items()}

        rows: dict[str, tuple[ScheduleSnapshot, RunSpec]] = self.write(read)
        return rows

    def ask(self, command: type[SelfCommand], label: str = "triage/check", **fields: Any) -> SelfChange:
        target, _, name = label.partition("/")
        number = self.rows(target)[name][0].id
        actor = Actor(name=f"agent:{target}", scopes=frozenset({Scope.SELF}), target=label, is_remote=True)
        given = command(schedule=number, **{"reason": "release day", **fields})
        answer: SelfChange = self.write(lambda tx: execute(tx, self.now, actor, given))
        return answer

    def hold(self, name: str, hold: str, by: str) -> None:
        number = self.rows()[name][0].id
        if hold == "pause":
            self.write(lambda tx: control.pause(tx, self.now, number, Pause(by=by)))
        else:
            self.write(lambda tx: control.disable(tx, self.now, number, by))

    def create(self, label: str = "triage/check", **fields: Any) -> SelfChange:
        trigger = {} if {"every", "cron", "at"} & fields.keys() else {"every": "10m"}
        return self.ask(CreateOwnSchedule, label, **{"name": "deploy", "prompt": "Check it.", **trigger, **fields})


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with closing(Ledger(tmp_path)) as opened:
        yield opened


def test_a_new_schedule_has_the_limits_and_the_confinement_of_the_one_that_asked(ledger: Ledger) -> None:
    answer = ledger.create(expires_s=DAY.total_seconds())

    snapshot, brief = ledger.rows()["deploy"]
    asking, asking_brief = ledger.rows()["check"]
    policies = snapshot.plan.policies
    assert (answer.changed, answer.schedule, answer.until) == (True, "triage/deploy", TEN + DAY)
    assert answer.next_run_at is not None
    assert timedelta(0) <= answer.next_run_at - TEN - timedelta(minutes=10) <= timedelta(seconds=6)  # spread: 1 %
    assert policies.limits == asking.plan.policies.limits
    assert policies.active_hours == asking.plan.policies.active_hours
    assert (policies.bounds.ends_at, policies.wakes_per_day) == (TEN + DAY, 0)
    assert (brief["tool_policy"], brief["isolation"]) == (asking_brief["tool_policy"], asking_brief["isolation"])  # type: ignore[index]


def test_the_same_call_twice_adds_one_schedule_and_another_call_changes_it(ledger: Ledger) -> None:
    first = ledger.create()
    ledger.now += timedelta(minutes=2)
    again = ledger.create()
    other = ledger.create(every="", cron="0 9 * * *")

    assert (first.changed, again.changed, other.changed) == (True, False, True)
    assert again.until == first.until
    assert sorted(ledger.rows()) == ["check", "dear", "deploy", "short"]
    assert ledger.rows()["deploy"][0].plan.trigger.describe().startswith("at 09:00")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"every": "1m"}, "below_min_interval"),
        ({"every": "0s"}, "bad_trigger"),
        ({"every": "5x"}, "bad_trigger"),
        ({"cron": "99 * * * *"}, "bad_trigger"),
        ({"cron": "0 0 30 2 *"}, "bad_trigger"),
        ({"every": "10m", "cron": "0 9 * * *"}, "one_time"),
        ({"every": ""}, "one_time"),
        ({"at": TEN + timedelta(seconds=5)}, "bad_time"),
        ({"at": TEN + timedelta(days=400)}, "bad_time"),
        ({"expires_s": math.nan}, "too_long"),
        ({"expires_s": math.inf}, "too_long"),
        ({"expires_s": -1.0}, "too_long"),
        ({"expires_s": 100 * 365 * 86_400.0}, "too_long"),
        ({"name": ""}, "bad_name"),
        ({"name": "../victim"}, "bad_name"),
        ({"name": "a/b"}, "bad_name"),
        ({"name": "x" * 65}, "bad_name"),
        ({"name": "check"}, "name_taken"),
        ({"prompt": " "}, "bad_prompt"),
        ({"prompt": "x" * 5_000}, "bad_prompt"),
        ({"prompt": "a\x00b"}, "bad_prompt"),
        ({"prompt": "a\ud800b"}, "bad_prompt"),
        ({"reason": " "}, "no_reason"),
    ],
)
def test_what_no_schedule_can_be_is_refused_and_changes_nothing(
    ledger: Ledger, fields: dict[str, Any], code: str
) -> None:
    answer = ledger.create(**fields)

    assert (answer.refused, answer.changed) == (code, False)
    assert answer.hint
    assert sorted(ledger.rows()) == ["check", "dear", "short"]


def test_an_agent_whose_file_does_not_allow_it_creates_and_deletes_nothing(ledger: Ledger) -> None:
    assert ledger.create("victim/work").refused == "not_allowed"
    assert ledger.ask(DeleteOwnSchedule, "victim/work", name="work").refused == "not_allowed"
    assert list(ledger.rows("victim")) == ["work"]


def test_a_budget_of_one_schedule_is_not_multiplied_by_creating_others(ledger: Ledger) -> None:
    assert ledger.create("triage/dear").refused == "own_limit"


def test_a_schedule_never_outlives_the_one_that_created_it(ledger: Ledger) -> None:
    assert ledger.create("triage/short", expires_s=30 * DAY.total_seconds()).until == TEN + DAY


def test_ten_schedules_at_a_time_and_ended_ones_make_room(ledger: Ledger) -> None:
    for number in range(MAX_OWN_SCHEDULES):
        assert ledger.create(name=f"own-{number}", expires_s=HOUR.total_seconds()).changed
    refused = ledger.create(name="one-more")
    ledger.now += 2 * HOUR

    accepted = ledger.create(name="one-more")

    assert refused.refused == "too_many_schedules"
    assert "own-3" in refused.hint
    assert accepted.changed
    assert sorted(ledger.rows()) == ["check", "dear", "one-more", "short"]


def test_an_agent_deletes_only_what_it_has_created_and_a_repetition_is_no_error(ledger: Ledger) -> None:
    ledger.create()

    deleted, again = (ledger.ask(DeleteOwnSchedule, name="deploy") for _ in range(2))
    refused = ledger.ask(DeleteOwnSchedule, name="check")

    assert (deleted.changed, again.changed, refused.refused) == (True, False, "not_yours")
    assert sorted(ledger.rows()) == ["check", "dear", "short"]


@pytest.mark.parametrize("hold", ["pause", "disable"])
def test_an_agent_does_not_replace_a_schedule_that_a_person_holds(ledger: Ledger, hold: str) -> None:
    ledger.create()
    ledger.hold("deploy", hold, "human:you")

    deleted = ledger.ask(DeleteOwnSchedule, name="deploy")
    changed = ledger.create(every="20m")

    assert (deleted.refused, changed.changed) == ("held", True)
    assert "human:you" in deleted.detail
    assert ledger.rows()["deploy"][0].next_run_at is None


@pytest.mark.parametrize("hold", ["pause", "disable"])
def test_an_agent_whose_schedule_a_person_holds_goes_on_by_no_other_schedule(ledger: Ledger, hold: str) -> None:
    ledger.hold("check", hold, "human:you")

    assert ledger.create().refused == "held"
    assert sorted(ledger.rows()) == ["check", "dear", "short"]


@pytest.mark.parametrize("hold", ["pause", "disable"])
def test_no_token_of_an_agent_deletes_a_schedule_that_a_person_holds(ledger: Ledger, hold: str) -> None:
    ledger.create()
    ledger.hold("deploy", hold, "human:you")
    delete = DeleteSchedule(target="triage", name="deploy")

    with pytest.raises(Conflict, match="by human:you: only a person can delete it"):
        ledger.write(lambda tx: execute(tx, TEN, Actor(name="agent:triage", target="triage", is_remote=True), delete))
    removed = ledger.write(lambda tx: execute(tx, TEN, Actor(name="human:other"), delete)).removed

    assert removed == ("triage/deploy",)


def test_the_pause_of_a_rule_keeps_no_agent_from_deleting_its_schedule(ledger: Ledger) -> None:
    ledger.create()
    ledger.hold("deploy", "pause", "rule:stop")

    assert ledger.ask(DeleteOwnSchedule, name="deploy").changed


def test_applying_the_files_keeps_what_an_agent_has_created(ledger: Ledger) -> None:
    ledger.create()

    ledger.apply_again()

    assert "deploy" in ledger.rows()


def test_a_prompt_of_a_model_is_no_template(ledger: Ledger) -> None:
    ledger.create(prompt="Say {{previous.response}} and {{ payload.secret }}.")

    prompt = ledger.rows()["deploy"][1]["prompt"]  # type: ignore[index]

    assert prompt.count("\\{{") == 2
