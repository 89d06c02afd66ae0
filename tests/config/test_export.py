"""An exported fleet is the fleet: one file, loaded again, gives the same targets and schedules."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.config.test_cases import CASES, ENVIRON

from herdbeat.config.build_policies import build_default_policies
from herdbeat.config.export import CreatedTarget, export_created, export_files
from herdbeat.config.imports.document import render_fleet
from herdbeat.config.loader import LoadResult, try_load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.policies import Backoff, Catchup, Jitter, Limits, Overlap, Policies, Retry
from herdbeat.domain.schedule import Schedule
from herdbeat.domain.target import CallableSpec, CommandSpec, EndpointSpec, Target, TargetKind
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.triggers import Cron, Delay, FixedRate, Interval, Manual

BERLIN = ZoneInfo("Europe/Berlin")
EXAMPLES = Path(__file__).parents[2] / "examples"
PARTS = ("good_agent_alone", "good_agentd_agent_alone", "good_workflow_alone")
"""Files that are a part of a fleet."""


def _fleets() -> list[Path]:
    cases = [path for path in CASES.iterdir() if path.is_dir() or path.suffix == ".yaml"]
    good = [path for path in cases if path.stem.startswith("good_") and path.stem not in PARTS]
    return sorted([*good, *(path for path in EXAMPLES.iterdir() if path.is_dir())])


@pytest.mark.parametrize("case", _fleets(), ids=lambda path: path.stem)
def test_an_exported_fleet_is_the_same_fleet_in_one_file(case: Path, tmp_path: Path) -> None:
    folder = tmp_path / case.stem
    shutil.copytree(case, folder) if case.is_dir() else folder.mkdir()
    file = folder / "herdbeat.yaml"
    if not case.is_dir():
        shutil.copy(case, file)
    before = _require_fleet(_load(folder))

    text = render_fleet(export_files(folder, environ=ENVIRON, system_zone=BERLIN, base=folder))

    file.write_text(text, encoding="utf-8")
    after = _require_fleet(_load(folder))
    assert _targets(after.targets) == _targets(before.targets)
    assert _schedules(after.schedules) == _schedules(before.schedules)
    same = {"name", "zone", "store", "budget", "server", "retention", "notify", "webhooks", "prices", "dead_man"}
    assert {name: getattr(after, name) for name in same} == {name: getattr(before, name) for name in same}


def _load(folder: Path) -> LoadResult:
    return try_load_fleet(folder, environ=ENVIRON, system_zone=BERLIN, base=folder)


def _require_fleet(result: LoadResult) -> Fleet:
    assert result.errors == ()
    assert result.fleet is not None
    return result.fleet


def _targets(targets: Iterable[Target]) -> dict[str, Target]:
    return {each.name.replace(".", "-"): replace(each, name="", origin=None) for each in targets}


def _schedules(schedules: Iterable[Schedule]) -> dict[str, Schedule]:
    return {
        each.id.replace(".", "-"): replace(
            each,
            target="",
            origin=None,
            trigger=_without_origin(each.trigger),
            prompt=None if each.prompt is None else each.prompt.replace("\\{{", "{{"),
        )
        for each in schedules
    }


def _without_origin(trigger: Trigger) -> Trigger:
    """A delay of agentd keeps the dedup id of agentd, which no file of ours can ask for."""
    return replace(trigger, is_workflow=False) if isinstance(trigger, Delay) else trigger


SECRETS = """\
version: 1
timezone: UTC
store: ${STORE:-sqlite:.herdbeat/herdbeat.db}
endpoints:
  - name: health
    url: https://example.com/?key=${API_TOKEN}
    headers: { Authorization: "Bearer ${API_TOKEN}", X-Api-Key: written-in-the-file }
    every: 5m
commands:
  - name: push
    command: [push, --password, hunter2hunter2, "--token=abcdefgh", "postgres://ann:pass9word@db/x", 'echo $${HOME}']
    env: { API_TOKEN: "${API_TOKEN}", DB_PASSWORD: another-secret }
    every: 1h
"""


def test_an_export_has_references_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "herdbeat.yaml").write_text(SECRETS, encoding="utf-8")

    document = export_files(tmp_path, environ={"API_TOKEN": "t0psecret-value"}, system_zone=BERLIN, base=tmp_path)

    text = render_fleet(document)
    for secret in ("t0psecret", "written-in-the-file", "hunter2", "abcdefgh", "pass9word", "another-secret"):
        assert secret not in text
    assert "key=${API_TOKEN}" in text
    assert "'Bearer ${API_TOKEN}'" in text
    assert "${STORE:-sqlite:.herdbeat/herdbeat.db}" in text
    assert "X-Api-Key: '${HEALTH_HEADERS_X_API_KEY}'" in text
    assert "--token=${PUSH_COMMAND_3}" in text
    assert "echo $${HOME}" in text
    assert {note.kind for note in document.all_notes} == {"changed"}


def _schedule(target: Target, name: str, trigger: Trigger, policies: Policies) -> Schedule:
    return Schedule(target=target.name, name=name, trigger=trigger, policies=policies, prompt="Say ${HOME}.")


def _policies(kind: TriggerKind, target: TargetKind) -> Policies:
    return build_default_policies(BERLIN, kind, target)


CREATED = (
    Target(name="probe", spec=EndpointSpec(url="https://example.com/x", method="POST", body={"a": 1})),
    Target(name="note", spec=CommandSpec(command=("echo", "${HOME}"), working_directory="."), max_concurrent=3),
    Target(name="tidy", spec=CallableSpec(call="app.jobs:tidy")),
)


def test_what_was_created_in_the_ledger_is_exported_with_all_of_its_policies(tmp_path: Path) -> None:
    probe, note, tidy = CREATED
    changed = replace(
        _policies(TriggerKind.INTERVAL, TargetKind.ENDPOINT),
        catchup=Catchup.ALL,
        overlap=Overlap.QUEUE,
        jitter=Jitter(share=0.1),
        limits=Limits(at_least=timedelta(seconds=10)),
        backoff=Backoff(factor=3),
        retry=Retry(attempts=4, wait=timedelta(seconds=5)),
        max_late=timedelta(minutes=5),
        tags=("x",),
        zone=ZoneInfo("UTC"),
    )
    cron = _policies(TriggerKind.CRON, TargetKind.COMMAND)
    created = [
        CreatedTarget(target=probe, schedules=(_schedule(probe, "default", Interval(timedelta(minutes=5)), changed),)),
        CreatedTarget(
            target=note,
            schedules=(
                _schedule(note, "default", Cron.parse("0 9 * * MON-FRI", BERLIN), cron),
                replace(_schedule(note, "b", FixedRate(timedelta(hours=1)), changed), enabled=False),
            ),
        ),
        CreatedTarget(
            target=tidy,
            schedules=(_schedule(tidy, "default", Manual(), _policies(TriggerKind.MANUAL, TargetKind.CALLABLE)),),
        ),
    ]

    text = render_fleet(export_created("zoo", BERLIN, created))

    fleet = _require_fleet(_load_alone(text, tmp_path))
    assert _targets(fleet.targets) == _targets(CREATED)
    assert _schedules(fleet.schedules) == _schedules(each for one in created for each in one.schedules)
    assert (fleet.name, fleet.zone) == ("zoo", BERLIN)


def _load_alone(text: str, folder: Path) -> LoadResult:
    (folder / "herdbeat.yaml").write_text(text, encoding="utf-8")
    return try_load_fleet(folder, environ={}, system_zone=ZoneInfo("UTC"), base=folder)


def test_a_schedule_created_for_a_target_of_the_files_moves_under_it(tmp_path: Path) -> None:
    text = (
        "version: 1\ntimezone: UTC\nendpoints: [{ name: probe, url: https://example.com/x, every: 5m, priority: 3 }]\n"
    )
    (tmp_path / "herdbeat.yaml").write_text(text, encoding="utf-8")
    utc = ZoneInfo("UTC")
    policies = build_default_policies(utc, TriggerKind.CRON, TargetKind.ENDPOINT)
    added = _schedule(CREATED[0], "night", Cron.parse("0 1 * * *", utc), policies)

    document = export_files(
        tmp_path,
        environ={},
        system_zone=BERLIN,
        base=tmp_path,
        created=[CreatedTarget(target=CREATED[0], schedules=(added,))],
    )

    fleet = _require_fleet(_load_alone(render_fleet(document), tmp_path))
    assert {each.id: each.policies.priority for each in fleet.schedules} == {"probe/default": 3, "probe/night": 0}
    assert _schedules(fleet.schedules)["probe/night"] == replace(added, target="")
