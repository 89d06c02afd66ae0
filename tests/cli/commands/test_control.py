"""Pause, resume, disable, enable, hint, reset and changes at the terminal, while nothing runs."""

import json
import shlex
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.support.fleet_history import create_fleet_history

from herdbeat.domain.policies import Limits
from herdbeat.store.state_lock import StateLock, find_lock_holder
from herdbeat.testing.clock import FakeClock
from herdbeat.testing.command_line import CommandLine, CommandResult
from herdbeat.testing.herd import ScriptedRunner, SimulatedHerd

FLEET = """\
version: 1
fleet: { name: my-fleet }
timezone: Europe/Berlin
callables:
  - { name: queue-depth, call: "fleet:queue", every: 1h }
  - { name: unborn, call: "fleet:unborn", every: 1h }
"""
LIMITS = Limits(at_least=timedelta(seconds=15), at_most=timedelta(minutes=15))


@pytest.fixture
async def fleet(cli: CommandLine) -> CommandLine:
    """Three targets with one past run each, and no running fleet."""
    await create_fleet_history(cli, FLEET, _schedules)
    return cli


def _schedules(herd: SimulatedHerd) -> None:
    herd.schedule("queue-depth", every="1h", tags=("ops",))
    herd.schedule("api-health", every="5m", runner=ScriptedRunner(fails=1), limits=LIMITS, tags=("ops",))
    herd.schedule("triage/check", every="30m", group="agents", tags=("weekend",))
    herd.schedule("triage/standup", cron="0 9 * * 1-5", zone="Europe/Berlin", group="agents")
    herd.schedule("launch", at="2026-03-26T13:00:00Z")


def advance(cli: CommandLine, by: timedelta) -> None:
    assert isinstance(cli.clock, FakeClock)
    cli.clock.advance(by)


def states(cli: CommandLine) -> dict[str, str]:
    return {each["schedule"]: each["state"] for each in json.loads(cli.run("list", "--json").out)["items"]}


def said_of(cli: CommandLine, label: str) -> list[str]:
    """Return when it runs next, and why."""
    return cli.run("explain", label).lines()[:2]


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "queue-depth"),
        ("pause", "triage/*"),
        ("pause", "--tag", "weekend"),
        ("pause", "--all", "--yes"),
        ("disable", "--group", "agents", "--tag", "ops"),
        ("skip", "triage/check"),
        ("hint", "queue-depth", "--every", "20s"),
        ("pause", "queue-depth", "--config", "my fleet.yaml"),
    ],
)
def test_a_pasted_undo_restores_the_previous_state(fleet: CommandLine, words: tuple[str, ...]) -> None:
    (fleet.folder / "my fleet.yaml").write_text(FLEET, encoding="utf-8")
    fleet.run("pause", "triage/standup")  # paused before: the undo must not touch it
    before = (states(fleet), said_of(fleet, "triage/check"), said_of(fleet, "queue-depth"))

    done = fleet.run(*words)
    undo = shlex.split((done.out + done.err).partition("undo: ")[2].partition("\n")[0])
    undone = fleet.run(*undo[1:], *(["--yes"] if "--all" in undo else []))

    assert undo[0] == "herdbeat"
    assert undone.status == 0
    assert (states(fleet), said_of(fleet, "triage/check"), said_of(fleet, "queue-depth")) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("pause", "queue-depth", "--for", "2h", "--reason", "it's the db"), ("resume", "queue-depth")),
        (("pause", "queue-depth", "--until", "18:00"), ("pause", "queue-depth", "--for", "9h")),
        (("pause", "queue-depth"), ("resume", "queue-depth", "--config", "my fleet.yaml")),
        (("pause", "queue-depth", "--for", "2h"), ("resume", "queue-depth", "triage/standup")),
        (("skip", "queue-depth", "--count", "2"), ("skip", "queue-depth", "--count", "5")),
        (("skip", "queue-depth", "--count", "2"), ("skip", "queue-depth", "--clear")),
    ],
)
def test_the_undo_of_a_resume_restores_the_end_of_the_pause(
    fleet: CommandLine, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    (fleet.folder / "my fleet.yaml").write_text(FLEET, encoding="utf-8")
    fleet.run("pause", "triage/standup", "--reason", "holidays")
    fleet.run(*first)
    before = (said_of(fleet, "queue-depth"), said_of(fleet, "triage/standup"))

    changed = fleet.run(*then)
    for undo in changed.out.partition("undo: ")[2].partition("\n")[0].split(" && "):
        fleet.run(*shlex.split(undo)[1:])

    assert (said_of(fleet, "queue-depth"), said_of(fleet, "triage/standup")) == before


def test_a_pause_prints_its_end_and_its_undo(fleet: CommandLine) -> None:
    answer = fleet.run("pause", "queue-depth", "--for", "2h", "--reason", "db maintenance")

    assert answer.out == "Paused queue-depth until 16:04 CET.   undo: herdbeat resume queue-depth\n"
    assert answer.err == "The fleet is not running. Saved; takes effect at the next start: herdbeat up\n"
    assert answer.status == 0


@pytest.mark.parametrize(
    ("words", "until"),
    [
        (("--for", "90m"), "15:34 CET"),
        (("--until", "18:00"), "18:00 CET"),
        (("--until", "09:30"), "tomorrow 09:30 CET"),
        (("--until", "tomorrow 09:00:30"), "tomorrow 09:00:30 CET"),
        (("--until", "2026-03-28"), "Sat 28 Mar 00:00 CET"),
        (("--until", "2026-03-30T08:00:00Z"), "Mon 30 Mar 10:00 CEST"),
        (("--until", "2h"), "16:04 CET"),
    ],
)
def test_the_end_of_a_pause_can_be_given_in_every_supported_form(
    fleet: CommandLine, words: tuple[str, str], until: str
) -> None:
    assert fleet.run("pause", "queue-depth", *words).out.startswith(f"Paused queue-depth until {until}.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pause", "queue-depth", "--for", "2h", "--until", "18:00"), "--for and --until cannot be combined"),
        (("pause", "queue-depth", "--until", "2026-03-26T08:00:00Z"), "The end of the pause is in the past"),
        (("pause", "queue-depth", "--until", "25:00"), '"25:00" is not a valid time'),
        (("pause", "queue-depth", "--for", "2x"), "is not a time unit"),
        (("pause",), "No schedule is selected"),
        (("pause", "--all"), "This will pause 5 schedules. Not an interactive terminal"),
        (("hint", "queue-depth"), "The hint has no value"),
        (("hint", "queue-depth", "--every", "5s", "--clear"), "--every and --clear cannot be combined"),
        (("hint", "queue-depth", "--at", "18:00", "--for", "1h"), "would expire before its time"),
    ],
)
def test_a_contradictory_command_is_refused_with_a_hint(
    fleet: CommandLine, words: tuple[str, ...], message: str
) -> None:
    answer = fleet.run(*words)

    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err
    assert len(answer.err.splitlines()) == 2


def test_an_unknown_name_gets_a_suggestion_and_a_name_of_the_files_another_message(fleet: CommandLine) -> None:
    typo, unborn = fleet.run("pause", "queue-dept"), fleet.run("pause", "unborn")

    assert (typo.status, unborn.status) == (3, 3)
    assert 'did you mean "queue-depth"?' in typo.err
    assert '"unborn" is in the configuration, but not in the ledger yet.' in unborn.err


def test_toggles_are_idempotent(fleet: CommandLine) -> None:
    fleet.run("pause", "queue-depth", "--until", "16:04", "--reason", "db")
    paused = fleet.run("pause", "queue-depth", "--until", "16:04")
    fleet.run("resume", "queue-depth")
    resumed = fleet.run("resume", "queue-depth")

    assert paused.out == '· queue-depth  already paused until 16:04 CET by human:you "db"; no change\n'
    assert resumed.out == "· queue-depth  not paused; no change\n"
    assert (paused.status, resumed.status) == (0, 0)


def test_a_bulk_change_is_one_line_with_one_undo(fleet: CommandLine) -> None:
    fleet.run("pause", "queue-depth")

    answer = fleet.run("pause", "--tag", "ops", "--group", "agents")

    assert answer.lines() == [
        "Paused 3 schedules until resumed.   undo: herdbeat resume api-health triage/check triage/standup",
        "· queue-depth  already paused until resumed by human:you; no change",
    ]


@pytest.mark.parametrize(
    ("typed", "status", "output"), [("y\n", 0, "Paused 5 schedules"), ("\n", 1, ""), ("no\n", 1, ""), ("", 1, "")]
)
def test_all_asks_for_confirmation(fleet: CommandLine, typed: str, status: int, output: str) -> None:
    fleet.typed = typed

    answer = fleet.run("pause", "--all", "--reason", "incident-42")

    assert answer.err.startswith("This will pause 5 schedules. Continue? [y/N] ")
    assert answer.status == status
    assert answer.out.startswith(output)
    assert bool(answer.out) is (status == 0)


def test_yes_skips_the_confirmation(fleet: CommandLine) -> None:
    answer = fleet.run("disable", "--all", "--yes")

    assert answer.out.startswith("Disabled 5 schedules until enabled, even after a restart.")


def test_a_dry_run_only_lists_the_schedules(fleet: CommandLine) -> None:
    answer = fleet.run("disable", "triage/*", "--dry-run")

    assert answer.lines() == ["SCHEDULE        STATE", "triage/check    ok", "triage/standup  new"]
    assert answer.err == "Would disable 2 schedules. Nothing was changed.\n"
    assert fleet.run("changes", "triage/check", "--json").json()["items"][0]["what"] == "add"


def test_disable_and_enable_print_the_next_run(fleet: CommandLine) -> None:
    off, on = fleet.run("disable", "triage/standup"), fleet.run("enable", "triage/standup")

    assert off.out.startswith("Disabled triage/standup until enabled, even after a restart.   undo: herdbeat enable")
    assert on.out.startswith("Enabled triage/standup. Next run tomorrow 09:00 CET.   undo: herdbeat disable")


def test_enable_rearms_a_one_shot(fleet: CommandLine) -> None:
    answer = fleet.run("enable", "launch")

    assert answer.lines() == [
        "Enabled launch. Next run 14:04 CET.   undo: herdbeat disable launch",
        "  re-armed",
    ]


def test_update_enabled_rearms_a_one_shot_of_a_file_and_disables_it(fleet: CommandLine) -> None:
    fired = fleet.run("show", "launch", "--json").json()
    on = fleet.run("update", "launch", "--enabled", "true")
    off = fleet.run("update", "launch", "--enabled", "false")
    prompt = fleet.run("update", "launch", "--enabled", "true", "--at", "tomorrow 09:00")

    assert fired["enabled"] is False
    assert on.lines()[-1] == "  re-armed"
    assert off.out.startswith("Disabled launch until enabled")
    assert prompt.status == 1
    assert "is defined in" in prompt.err


async def test_a_one_shot_that_fired_and_failed_is_not_enabled(cli: CommandLine) -> None:
    def schedule(herd: SimulatedHerd) -> None:
        herd.schedule("launch", at="2026-03-26T13:00:00Z", runner=ScriptedRunner(fails=1))

    await create_fleet_history(cli, FLEET, schedule)

    shown = cli.run("show", "launch", "--json").json()

    assert (shown["state"], shown["enabled"]) == ("failing", False)
    assert "false: it has fired" in cli.run("show", "launch").out


def test_a_hint_prints_its_effect_and_what_it_overrides(fleet: CommandLine) -> None:
    fine = fleet.run("hint", "queue-depth", "--every", "20s", "--for", "1h", "--reason", "watching the deploy")
    fast = fleet.run("hint", "api-health", "--every", "5s", "--for", "10m")

    assert fine.lines() == ["queue-depth  every 20s until 15:04 CET, by human:you   next 14:04:20"]
    assert fine.err.startswith("undo: herdbeat hint queue-depth --clear\n")
    assert fast.lines() == [
        "api-health  every 5s until 14:14 CET, by human:you   next 14:04:15",
        "  requested 5s, will run every 15s: min_interval 15s (clamped-min)",
    ]


def test_a_hint_for_an_instant_can_be_cleared(fleet: CommandLine) -> None:
    given = fleet.run("hint", "queue-depth", "--at", "14:10")
    cleared = fleet.run("hint", "queue-depth", "--clear")
    again = fleet.run("hint", "queue-depth", "--clear")

    assert given.lines() == ["queue-depth  at 14:10:00, by human:you   next 14:10:00"]
    assert cleared.lines() == ["Cleared the hints of queue-depth. Next run 15:04 CET."]
    assert again.lines() == ["· queue-depth  no hints to remove; no change"]


async def test_the_list_of_hints_shows_the_state_of_each(fleet: CommandLine) -> None:
    fleet.run("hint", "queue-depth", "--every", "30s", "--for", "1m")
    advance(fleet, timedelta(minutes=2))
    for words in (("--every", "20s"), ("--every", "10s"), ("--at", "14:30")):
        fleet.run("hint", "queue-depth", *words)
    fleet.run("hint", "api-health", "--every", "1m")
    fleet.run("hint", "api-health", "--clear")

    answer, one = fleet.run("hint", "--list"), fleet.run("hint", "--list", "api-health", "--json")

    assert [line.split()[1] for line in answer.lines()[1:]] == ["api-health", *["queue-depth"] * 4]
    assert [
        (item["every"] or item["at"], item["state"]) for item in fleet.run("hint", "--list", "--json").json()["items"]
    ] == [
        ("1m", "cleared"),
        ("2026-03-26T13:30:00Z", "active"),
        ("10s", "active"),
        ("20s", "replaced"),
        ("30s", "expired"),
    ]
    assert [item["ended_by"] for item in one.json()["items"]] == ["human:you"]


def test_a_reset_prints_what_it_changed(fleet: CommandLine) -> None:
    first, second = fleet.run("reset", "api-health"), fleet.run("reset", "api-health")

    assert first.lines() == ["Reset api-health: 1 failure cleared. Next run 14:09 CET."]
    assert second.lines() == ["· api-health  nothing to reset: no failures, no quarantine; no change"]


def test_changes_lists_actor_and_change_newest_first(fleet: CommandLine) -> None:
    fleet.run("pause", "queue-depth", "--until", "16:04", "--reason", "db")
    advance(fleet, timedelta(minutes=1))
    fleet.run("resume", "queue-depth", USER="ada")

    answer, page = fleet.run("changes", "queue-depth", "-n", "2"), fleet.run("changes", "--json", "-n", "1").json()

    heading, resumed, paused = answer.lines()
    assert heading == "WHEN      WHO        ACTION  SCHEDULE     DETAILS"
    until = "until 16:04:00"
    assert resumed == (
        f"14:05:00  human:ada  resume  queue-depth  paused yes → no, {until} → –, by human:you → –, reason db → –"
    )
    assert paused == f"14:04:00  human:you  pause   queue-depth  paused no → yes, {until}, by human:you, reason db"
    assert "There are more rows: use --cursor" in answer.err
    assert page["items"][0]["who"] == "human:ada"
    assert fleet.run("changes", "queue-dept").status == 3
    older = fleet.run("changes", "--cursor", page["next_cursor"], "-n", "1", "--json").json()
    assert older["items"][0]["what"] == "pause"


@pytest.mark.parametrize("words", [("pause", "queue-depth"), ("hint", "queue-depth", "--every", "20s")])
def test_the_json_has_the_same_content(fleet: CommandLine, words: tuple[str, ...]) -> None:
    answer = fleet.run(*words, "--json")

    found = answer.json()
    assert (found["changed"], found["served"]) == (1, False)
    assert found["undo"].startswith("herdbeat ")
    assert found["items"][0]["schedule"] == "queue-depth"


@pytest.mark.parametrize("words", [("hint", "--list"), ("changes",)])
def test_without_a_ledger_there_is_nothing_to_list(cli: CommandLine, words: tuple[str, ...]) -> None:
    (cli.folder / "herdbeat.yaml").write_text(FLEET, encoding="utf-8")

    answer = cli.run(*words)

    assert (answer.status, answer.out) == (0, "")
    assert "herdbeat up" in answer.err


def test_the_state_lock_is_released_and_a_held_one_is_waited_for(fleet: CommandLine) -> None:
    state = fleet.folder / ".herdbeat"
    fleet.run("pause", "queue-depth")
    assert find_lock_holder(state) is None

    with StateLock(state):
        answer = fleet.run("resume", "queue-depth")

    assert answer.status == 1
    assert "already running on" in answer.err


EXPLAINED: list[tuple[Callable[[CommandLine], CommandResult], str]] = [
    (
        lambda cli: cli.run("pause", "queue-depth", "--for", "2h", "--reason", "db"),
        'paused for another 2h by human:you "db"; resume it: herdbeat resume queue-depth',
    ),
    (
        lambda cli: cli.run("disable", "queue-depth"),
        "no next run: disabled by human:you (herdbeat enable queue-depth)",
    ),
    (
        lambda cli: cli.run("hint", "queue-depth", "--every", "20s", "--reason", "deploy"),
        '✓ hint every 20s by human:you, 1h left "deploy"  14:04:20',
    ),
]


@pytest.mark.parametrize(("act", "expected"), EXPLAINED)
def test_explain_shows_changes(fleet: CommandLine, act: Callable[[CommandLine], CommandResult], expected: str) -> None:
    act(fleet)

    assert expected in fleet.run("explain", "queue-depth").out


def test_explain_shows_a_hint_once_with_its_current_state(fleet: CommandLine) -> None:
    """It used to be under WHY as of the decision, and again under HINTS."""
    fleet.run("hint", "queue-depth", "--every", "2h", "--for", "5h", "--reason", "deploy")
    advance(fleet, timedelta(minutes=90))

    found = fleet.run("explain", "queue-depth")

    assert found.out.count("deploy") == 2  # in the headline, and under WHY
    assert '✓ hint every 2h by human:you, 3h 30m left "deploy"  16:04:00' in found.out
    assert "HINTS" not in found.out


def test_status_shows_held_schedules_without_times_that_will_not_happen(fleet: CommandLine) -> None:
    fleet.run("pause", "queue-depth", "--until", "16:04", "--reason", "db")
    fleet.run("disable", "triage/check")

    answer, found = fleet.run("status"), fleet.run("status", "--json").json()

    assert "PAUSED 1" in answer.out
    assert "DISABLED 1" in answer.out
    assert "queue-depth  ‖ paused until 16:04:00  by human:you  db" in answer.out
    assert "triage/check  ○ disabled  by human:you" in answer.out
    assert [item["schedule"] for item in found["next"]] == ["api-health", "triage/standup"]
    assert [item["state"] for item in found["held"]] == ["paused", "disabled"]


def test_a_person_may_run_what_is_paused(fleet: CommandLine) -> None:
    fleet.run("pause", "queue-depth")

    assert fleet.run("run", "queue-depth", "--json").json()["success"] is True
