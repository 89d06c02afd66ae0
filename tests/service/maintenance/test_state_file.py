"""`state.yaml`, written out and taken over."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command_bus import YOU, make_handle
from tests.support.schedule_builders import make_fleet, make_schedule

from herdbeat.errors import ConfigError
from herdbeat.service.commands.base import ImportState, StateEntry
from herdbeat.service.maintenance.state_file import parse_state_file, serialize_state
from herdbeat.store.reader import SqliteReader

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)
AN_HOUR_AGO = NOW - timedelta(hours=1)
HERDCTL = """\
fleet: { started_at: "2026-03-20T08:00:00.000Z" }
agents:
  triage:
    status: running
    current_job: job-2026-03-26-abc123
    schedules:
      check: { status: running, last_run_at: "2026-03-26T12:04:00.000Z", next_run_at: null, last_error: "it broke" }
      off: { status: disabled, last_run_at: null }
      new: { status: idle }
  gone: { status: idle, schedules: { x: { status: idle, last_run_at: 2026-03-26T12:04:00Z } } }
  bare: { status: idle }
session_wakes: []
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "state.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_state_of_herdctl_is_read_with_what_matters_of_it(tmp_path: Path) -> None:
    found = parse_state_file(written(tmp_path, HERDCTL))

    assert found == (
        StateEntry(agent="triage", name="check", last_run_at=AN_HOUR_AGO, last_error="it broke"),
        StateEntry(agent="triage", name="off", disabled=True),
        StateEntry(agent="triage", name="new"),
        StateEntry(agent="gone", name="x", last_run_at=AN_HOUR_AGO),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: [", "YAML|flow|expected"),
        ("agents: { a: { schedules: { b: { last_run_at: yesterday } } } }", "a/b: .*yesterday"),
        ("", "empty"),
    ],
)
def test_a_file_that_is_none_is_refused_and_says_where(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_state_file(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        parse_state_file(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("text", ["agents: 3", "agents: { a: 3 }", "agents: { a: { schedules: [x] } }", "x: 1"])
def test_a_file_of_another_shape_has_no_entries(tmp_path: Path, text: str) -> None:
    assert parse_state_file(written(tmp_path, text)) == ()


def test_a_fleet_that_never_ran_here_continues_where_it_stopped_elsewhere(tmp_path: Path) -> None:
    fleet = make_fleet(make_schedule("triage/check", "2h"), make_schedule("triage/off"), make_schedule("triage/new"))
    ledger = tmp_path / "state" / "ledger.db"

    command = ImportState(states=parse_state_file(written(tmp_path, HERDCTL)))
    done = make_handle(ledger, NOW, fleet).dispatcher.run(YOU, command)

    reader = SqliteReader(ledger)
    state = serialize_state(reader, "my-fleet")
    reader.close()
    assert (done.taken, done.empty, done.unknown) == (("triage/check", "triage/off"), ("triage/new",), ("gone/x",))
    agents = state["agents"]
    assert agents == {
        "triage": {
            "status": "idle",
            "next_schedule": "new",
            "next_trigger_at": "2026-03-26T13:04:00Z",
            "schedules": {
                "check": {
                    "status": "idle",
                    "last_run_at": "2026-03-26T12:04:00Z",
                    "next_run_at": "2026-03-26T14:04:00Z",
                    "last_error": "it broke",
                },
                "off": {"status": "disabled", "last_run_at": None, "next_run_at": None, "last_error": None},
                "new": {
                    "status": "idle",
                    "last_run_at": None,
                    "next_run_at": "2026-03-26T13:04:00Z",
                    "last_error": None,
                },
            },
        }
    }
