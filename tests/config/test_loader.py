from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.config_folder import SYSTEM_ZONE, ConfigFolder

from herdbeat.config.loader import load_fleet, try_load_fleet
from herdbeat.error_codes import Code
from herdbeat.errors import ConfigError

HALF_RIGHT = """
endpoints:
  - { name: right, url: "https://a.example.com", every: 5m }
  - { name: wrong-schedule, url: "https://b.example.com", every: 5x }
  - { name: wrong-target, url: nowhere, every: 5m }
  - name: half
    url: https://c.example.com
    schedules:
      right: { every: 1h }
      wrong: { every: 1h, timeout: soon }
"""


def test_an_error_rejects_only_the_part_that_contains_it(folder: ConfigFolder) -> None:
    result = folder.read(HALF_RIGHT)

    assert result.fleet is not None
    assert [target.name for target in result.fleet.targets] == ["right", "wrong-schedule", "half"]
    assert [schedule.label for schedule in result.fleet.schedules] == ["right", "half/right"]
    assert len(result.errors) == 3
    assert not result.fleet.is_sound


def test_a_fleet_is_sound_if_nothing_was_left_out(folder: ConfigFolder) -> None:
    result = folder.read("version: 1\ncommands:\n  - { name: right, command: [echo], every: 5m }\n")

    assert result.fleet is not None
    assert result.fleet.is_sound


def test_an_error_of_the_file_rejects_the_fleet_and_the_rest_is_still_reported(folder: ConfigFolder) -> None:
    result = folder.read("unknown: 1\n" + HALF_RIGHT)

    assert result.fleet is None
    assert [problem.code for problem in result.errors] == [
        Code.UNKNOWN_KEY,
        Code.INVALID_INTERVAL,
        Code.INVALID_VALUE,
        Code.INVALID_INTERVAL,
    ]


def test_problems_come_in_file_order(folder: ConfigFolder) -> None:
    result = folder.read(
        {
            "herdbeat.yaml": "agents: [{ path: a.yaml }, { path: b.yaml }]\nserver: { port: x }\nstore: y\n",
            "a.yaml": "name: a\nmodel: 1\nmax_turns: x\n",
            "b.yaml": "name: b\nmodel: 1\n",
        }
    )

    places = [str(problem.where) for problem in result.problems]

    assert places == ["herdbeat.yaml:2:17", "herdbeat.yaml:3:8", "a.yaml:2:8", "a.yaml:3:12", "b.yaml:2:8"]


def test_load_fleet_raises_every_error_at_once(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": HALF_RIGHT})

    with pytest.raises(ConfigError) as caught:
        load_fleet(folder.path, environ={}, system_zone=SYSTEM_ZONE)

    assert len(caught.value.problems) == 3


def test_load_fleet_returns_the_fleet_if_there_are_only_warnings(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "agents: [{ name: a, every: 5m }]"})

    fleet = load_fleet(folder.path, environ={}, system_zone=SYSTEM_ZONE)

    assert [schedule.label for schedule in fleet.schedules] == ["a"]


def test_the_sources_of_all_files_are_kept_for_code_frames(folder: ConfigFolder) -> None:
    result = folder.read({"herdbeat.yaml": "agents: [{ path: a.yaml }]", "a.yaml": "name: a"})

    assert result.sources == {"herdbeat.yaml": "agents: [{ path: a.yaml }]", "a.yaml": "name: a"}


def test_files_outside_the_base_are_named_in_full(folder: ConfigFolder) -> None:
    folder.write({"herdbeat.yaml": "x: 1"})

    result = try_load_fleet(folder.path, environ={}, system_zone=ZoneInfo("UTC"), base=Path("/somewhere/else"))

    (problem,) = result.problems
    assert problem.where is not None
    assert problem.where.file == str(folder.path / "herdbeat.yaml")


def test_an_inherited_invalid_default_is_reported_once(folder: ConfigFolder) -> None:
    endpoints = "".join(f'  - {{ name: e{n}, url: "https://x.example.com", every: 5m }}\n' for n in range(5))

    result = folder.read(f"defaults: {{ timeout: soon }}\nendpoints:\n{endpoints}")

    assert len(result.problems) == 1


def test_the_zone_is_the_systems_unless_a_file_names_one(folder: ConfigFolder) -> None:
    text = 'commands: [{ name: a, command: [ls], cron: "0 9 * * *" }]\n'

    assert folder.fleet(text).schedules[0].policies.zone == SYSTEM_ZONE
    assert folder.fleet("timezone: Asia/Tokyo\n" + text).schedules[0].policies.zone.key == "Asia/Tokyo"
