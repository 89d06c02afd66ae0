from datetime import timedelta

import pytest
from tests.support.config_folder import SYSTEM_ZONE, ConfigFolder

from herdbeat.domain.policies import Backoff, Budget, Catchup, FirstRun, Limits, OnInterrupt, Overlap, Policies, Retry
from herdbeat.error_codes import Code

TRIGGERS = [
    ("every: 5m", Catchup.ONCE, Overlap.SKIP),
    ('cron: "0 9 * * *"', Catchup.SKIP, Overlap.SKIP),
    ('at: "2026-12-01T09:00:00Z"', Catchup.ONCE, Overlap.SKIP),
    ("type: webhook", Catchup.ONCE, Overlap.QUEUE_ALL),
    ("type: manual", Catchup.ONCE, Overlap.QUEUE_ALL),
]
TARGETS = [
    ("agents: [{ name: x, every: 5m }]", timedelta(hours=1)),
    ('endpoints: [{ name: x, url: "https://example.com", every: 5m }]', timedelta(seconds=30)),
    ("commands: [{ name: x, command: [ls], every: 5m }]", timedelta(hours=1)),
    ('callables: [{ name: x, call: "a:b", every: 5m }]', timedelta(hours=1)),
]


def policies_of(folder: ConfigFolder, extra: str, top: str = "") -> Policies:
    fleet = folder.fleet(f"{top}\ncommands: [{{ name: x, command: [ls], {extra} }}]\n")
    return fleet.schedules[0].policies


@pytest.mark.parametrize(("trigger", "catchup", "overlap"), TRIGGERS)
def test_catchup_and_overlap_follow_the_trigger(
    trigger: str, catchup: Catchup, overlap: Overlap, folder: ConfigFolder
) -> None:
    policies = policies_of(folder, trigger)

    assert (policies.catchup, policies.overlap) == (catchup, overlap)


@pytest.mark.parametrize(("text", "timeout"), TARGETS)
def test_the_timeout_follows_the_target(text: str, timeout: timedelta, folder: ConfigFolder) -> None:
    assert folder.fleet(text).schedules[0].policies.timeout == timeout


def test_all_other_defaults_are_those_of_the_specification(folder: ConfigFolder) -> None:
    policies = policies_of(folder, "every: 5m")

    assert policies == Policies(
        zone=SYSTEM_ZONE,
        timeout=timedelta(hours=1),
        catchup=Catchup.ONCE,
        overlap=Overlap.SKIP,
        catchup_max=100,
        grace=timedelta(seconds=30),
        max_late=None,
        late_after=timedelta(seconds=30),
        limits=Limits(),
        backoff=Backoff(factor=2, max_failures=5),
        retry=Retry(attempts=1),
        first_run=FirstRun.NOW,
        on_interrupt=OnInterrupt.SKIP,
    )


def test_the_nearest_layer_wins_and_blocks_are_merged(folder: ConfigFolder) -> None:
    fleet = folder.fleet("""
        defaults: { grace: 1m, late_after: 1m, timeout: 1m, budget: { usd_per_day: 5 } }
        commands:
          - name: x
            command: [ls]
            late_after: 2m
            timeout: 2m
            schedules:
              a: { every: 1h, timeout: 3m, budget: { runs_per_day: 9 } }
    """)

    policies = fleet.schedules[0].policies

    minutes = [each.total_seconds() / 60 for each in (policies.grace, policies.late_after, policies.timeout)]
    assert minutes == [1, 2, 3]
    assert policies.budget == Budget(usd_per_day=5, runs_per_day=9)


def test_an_empty_key_undoes_the_default(folder: ConfigFolder) -> None:
    top = "defaults: { max_late: 1h, budget: { usd_per_day: 5 } }"

    policies = policies_of(folder, "every: 5m, max_late: null, budget: ", top)

    assert policies.max_late is None
    assert policies.budget is None


def test_the_level_of_a_budget_decides_which_schedules_share_it(folder: ConfigFolder) -> None:
    fleet = folder.fleet("""
        budget: { usd_per_day: 20 }
        defaults: { budget: { runs_per_day: 100 } }
        commands:
          - name: shared
            command: [ls]
            budget: { usd_per_day: 5 }
            schedules:
              plain: { every: 1h }
              own: { every: 1h, budget: { runs_per_day: 8 } }
          - { name: single, command: [ls], every: 1h, budget: { tokens_per_day: 7 } }
          - { name: silent, command: [ls], every: 1h }
    """)

    assert fleet.budget == Budget(usd_per_day=20)
    assert [target.budget for target in fleet.targets] == [Budget(usd_per_day=5), Budget(tokens_per_day=7), None]
    assert {each.label: each.policies.budget for each in fleet.schedules} == {
        "shared/plain": None,  # its target has said it
        "shared/own": Budget(runs_per_day=8),
        "single": None,
        "silent": Budget(runs_per_day=100),
    }


@pytest.mark.parametrize("text", ["budget: { usd_per_day: many }", "budget: 5", "budget: { usd: 5 }"])
@pytest.mark.parametrize("place", ["top", "target"])
def test_an_invalid_shared_budget_is_rejected(text: str, place: str, folder: ConfigFolder) -> None:
    command = "{ name: x, command: [ls], every: 5m }"
    beside = command.replace(" }", f", {text} }}")

    result = folder.read(f"{text}\ncommands: [{command}]" if place == "top" else f"commands: [{beside}]")

    assert ["budget" in (error.where.path if error.where else "") for error in result.errors] == [True]


@pytest.mark.parametrize(
    ("top", "beside", "is_noted"),
    [("", "", True), ("budget: { usd_per_day: 5 }", "", False), ("", ", budget: { usd_per_day: 5 }", False)],
)
def test_an_agent_with_a_shared_budget_gets_no_warning_about_a_missing_one(
    top: str, beside: str, is_noted: bool, folder: ConfigFolder
) -> None:
    result = folder.read(f"{top}\nagents: [{{ name: x, every: 1h, prompt: Go.{beside} }}]")

    assert [problem.code for problem in result.problems] == ([Code.NO_BUDGET] if is_noted else [])


def test_used_rule_sets_are_expanded_in_place(folder: ConfigFolder) -> None:
    top = "rules: { calm: [{ name: b, when: 'true', every: 1h }, { name: c, when: 'true', clear: true }] }"

    policies = policies_of(folder, "every: 5m, adapt: [{ name: a, when: 'true', pause: 1m }, { use: calm }]", top)

    assert [rule["name"] for rule in policies.adapt] == ["a", "b", "c"]


@pytest.mark.parametrize("extra", ["every: 5m, when: payload.x", "type: manual, first_run: now", "every: 5m, dedup: x"])
def test_a_key_that_this_kind_never_reads_is_a_warning(extra: str, folder: ConfigFolder) -> None:
    result = folder.read(f"commands: [{{ name: x, command: [ls], {extra} }}]")

    assert [problem.code for problem in result.problems] == [Code.NOT_SERVED]


@pytest.mark.parametrize(
    ("cron", "hours", "fires"),
    [
        ("0 3 * * *", "07:00-22:00", False),
        ("0 22 * * *", "07:00-22:00", False),
        ("0 7 * * *", "07:00-22:00", True),
        ("*/5 * * * * *", "12:00-12:01", True),
        ("30 23 * * *", "22:00-06:00", True),
        ("0 12 29 2 *", "11:00-13:00", True),
        ("0 0 1 1 *", "00:30-23:00", False),
    ],
)
def test_cron_that_never_fires_in_its_active_hours_is_rejected(
    cron: str, hours: str, fires: bool, folder: ConfigFolder
) -> None:
    result = folder.read(f'commands: [{{ name: x, command: [ls], cron: "{cron}", active_hours: "{hours}" }}]')

    assert [problem.code for problem in result.problems] == ([] if fires else [Code.NEVER_FIRES])
