"""Jobs that a real APScheduler has stored, read without running anything of them."""

import os
import pickle
import sqlite3
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.config.imports.apscheduler import import_jobs, read_jobs
from herdbeat.config.imports.document import FleetDocument, NoteKind, render_fleet
from herdbeat.config.imports.pickle_reader import PickledObject, UnreadablePickle, load_pickle
from herdbeat.config.loader import try_load_fleet
from herdbeat.domain.fleet import Fleet
from herdbeat.domain.references import resolve_spec
from herdbeat.domain.target import CommandSpec
from herdbeat.errors import UsageError
from herdbeat.triggers import Cron

BERLIN = ZoneInfo("Europe/Berlin")


def pickled(trigger: object, **options: object) -> bytes:
    """Return a job as SQLAlchemyJobStore writes it."""
    scheduler = BackgroundScheduler(timezone=BERLIN)
    scheduler.start(paused=True)
    try:
        function = options.pop("func", os.getcwd)
        job = scheduler.add_job(function, trigger, **options)
        return pickle.dumps(job.__getstate__(), pickle.HIGHEST_PROTOCOL)
    finally:
        scheduler.shutdown()


def imported(*jobs: tuple[str, bytes]) -> FleetDocument:
    return import_jobs("jobs.sqlite", jobs, "UTC")


def keys_of(trigger: object, **options: object) -> dict[str, object]:
    (target,) = imported(("job", pickled(trigger, **options))).targets
    return dict(target.keys)


def fleet_of(document: FleetDocument, folder: Path) -> Fleet:
    (folder / "herdbeat.yaml").write_text(render_fleet(document), encoding="utf-8")
    result = try_load_fleet(folder, environ={"SLEEP_TOKEN": "x" * 8}, system_zone=ZoneInfo("UTC"), base=folder)
    assert result.errors == ()
    assert result.fleet is not None
    return result.fleet


CRON_TRIGGERS = [
    {"hour": "9-17/2", "day_of_week": "mon-fri"},
    {"minute": "*/5"},
    {"second": "*/10", "minute": "0"},
    {"day": "last", "hour": 3},
    {"day": "2nd fri,last mon"},
    {"day": "1-15", "day_of_week": "0,2", "hour": "1,2"},
    {"month": "*/2", "day": "*/10", "hour": 4},
    {"hour": "22-23,0-2", "minute": "30"},
]


@pytest.mark.parametrize("fields", CRON_TRIGGERS, ids=str)
def test_a_cron_trigger_fires_when_apscheduler_says_so(fields: dict[str, object]) -> None:
    theirs = CronTrigger(timezone=BERLIN, **fields)

    keys = keys_of(theirs)

    assert keys["timezone"] == "Europe/Berlin"
    ours = Cron.parse(str(keys["cron"]), BERLIN)
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    expected, previous = [], now
    for _ in range(50):
        previous = theirs.get_next_fire_time(previous, previous + timedelta(seconds=1))
        expected.append(previous.astimezone(UTC))
    assert [each for each in islice(ours.upcoming(now), 70) if each in set(expected)] == expected
    assert [each for each in islice(ours.upcoming(now), 70) if each <= expected[20]] == expected[:21]


def test_an_interval_keeps_its_rate_its_end_and_its_jitter() -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)

    keys = keys_of(IntervalTrigger(minutes=5, jitter=10, end_date=end, timezone=UTC))

    assert {name: keys[name] for name in ("every", "anchor", "jitter", "ends_at", "call")} == {
        "every": "5m",
        "anchor": "start",
        "jitter": "10s",
        "ends_at": "2030-01-01T00:00:00Z",
        "call": "posix:getcwd",
    }


def test_a_date_and_alternatives_are_carried() -> None:
    run_date = datetime(2030, 6, 1, 9, tzinfo=BERLIN)

    assert keys_of(DateTrigger(run_date))["at"] == "2030-06-01T07:00:00Z"
    alternatives = keys_of(OrTrigger([CronTrigger(hour=1, timezone=UTC), IntervalTrigger(hours=2, timezone=UTC)]))
    schedules = alternatives["schedules"]
    assert isinstance(schedules, dict)
    assert schedules["time-1"]["cron"] == "0 1 * * *"
    assert schedules["time-2"]["every"] == "2h"


def test_misfires_instances_and_pauses_are_carried() -> None:
    trigger = IntervalTrigger(hours=1, timezone=UTC)

    patient = keys_of(trigger, misfire_grace_time=3600, coalesce=False, max_instances=3)
    paused = keys_of(trigger, misfire_grace_time=None, next_run_time=None)

    assert (patient["max_late"], patient["catchup"], patient["overlap"]) == ("1h", "all", "allow")
    assert patient["instances"] == {"max_concurrent": 3}
    assert paused["catchup"] == "once"
    assert paused["enabled"] is False


def test_arguments_become_a_command_and_secrets_references(tmp_path: Path) -> None:
    trigger = IntervalTrigger(hours=1, timezone=UTC)
    options = {"args": [1, "a'b", [True, None]], "kwargs": {"path": "${HOME}", "token": "abcdef123456"}}

    document = imported(("nightly", pickled(trigger, func="time:sleep", **options)))

    text = render_fleet(document)
    assert "abcdef123456" not in text
    command = document.targets[0].keys["command"]
    assert isinstance(command, list)
    expected = "import os, time; time.sleep(1, \"a'b\", [True, None], path='${HOME}', token=os.environ['SLEEP_TOKEN'])"
    spec = fleet_of(document, tmp_path).targets[0].spec
    assert isinstance(spec, CommandSpec)
    assert resolve_spec(spec, spec.variables, {"SLEEP_TOKEN": "abcdef123456"}).command[2] == expected


LOST = [
    (AndTrigger([CronTrigger(hour=1), CronTrigger(day=2)]), {}, "AndTrigger"),
    (CronTrigger(week="1-10"), {}, "week"),
    (CronTrigger(year="2030"), {}, "year"),
    (IntervalTrigger(hours=1), {"func": "time:sleep", "args": [datetime(2026, 1, 1, tzinfo=UTC)]}, "datetime"),
]


@pytest.mark.parametrize(("trigger", "options", "reason"), LOST, ids=lambda value: str(value)[:20])
def test_what_cannot_be_carried_is_named_with_its_job(trigger: object, options: dict[str, object], reason: str) -> None:
    document = imported(("job", pickled(trigger, **options)))

    (note,) = [each for each in document.all_notes if each.kind is NoteKind.NOT_CARRIED]
    assert reason in note.message
    assert 'Job "job"' in note.message
    assert document.targets == ()


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {tempfile.gettempdir()}/herdbeat-pickle-was-executed",)


def test_a_pickle_that_calls_a_program_calls_nothing() -> None:
    mark = Path(tempfile.gettempdir()) / "herdbeat-pickle-was-executed"
    mark.unlink(missing_ok=True)

    read = load_pickle(pickle.dumps({"trigger": Evil(), "func": "a:b"}))
    document = imported(("evil", pickle.dumps({"trigger": Evil(), "func": "a:b"})))

    assert isinstance(read, dict)
    assert isinstance(read["trigger"], PickledObject)
    assert read["trigger"].name == "posix.system"
    assert not mark.exists()
    assert document.targets == ()
    assert "cannot" in document.notes[0].message or "no equivalent" in document.notes[0].message


def test_a_pickle_with_an_impossible_length_is_refused() -> None:
    with pytest.raises(UnreadablePickle, match="OverflowError"):
        load_pickle(b"\x80\x05\x95" + b"\xff" * 8)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnreadablePickle):
        load_pickle(data)

    assert imported(("x", data)).targets == ()


@given(st.integers(0, 2_000), st.integers(0, 255))
def test_a_damaged_job_gives_a_target_or_a_note(position: int, byte: int) -> None:
    damaged = bytearray(JOB)
    damaged[position % len(damaged)] = byte

    document = imported(("x", bytes(damaged)))

    assert document.targets or document.notes


JOB = pickled(CronTrigger(hour="1-5", day_of_week="mon", timezone=BERLIN), name="a job")


def test_jobs_are_read_from_the_table_of_the_job_store(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite"
    with closing(sqlite3.connect(file)) as database:
        # As SQLAlchemyJobStore creates it.
        database.execute(
            "CREATE TABLE apscheduler_jobs (id VARCHAR(191) PRIMARY KEY, next_run_time FLOAT, job_state BLOB)"
        )
        database.execute("INSERT INTO apscheduler_jobs VALUES ('nightly', 1.5, ?)", (JOB,))
        database.commit()
    before = file.read_bytes()

    jobs = read_jobs(file)

    assert jobs == [("nightly", JOB)]
    assert file.read_bytes() == before
    with pytest.raises(UsageError, match="no such table"):
        read_jobs(file, "others")
    with pytest.raises(UsageError, match="not the name of a table"):
        read_jobs(file, 'x"; --')


def test_jobs_that_apscheduler_has_exported_as_json_are_those_of_its_database(tmp_path: Path) -> None:
    """It was said of the file that it is not a database."""
    file, damaged = tmp_path / "jobs.json", tmp_path / "damaged.json"
    scheduler = BackgroundScheduler(timezone=BERLIN)
    scheduler.start(paused=True)
    triggers = {
        "cron": CronTrigger(hour="1-5", day_of_week="mon", timezone=BERLIN),
        "either": OrTrigger([CronTrigger(hour=1, timezone=BERLIN), CronTrigger(day="last", timezone=BERLIN)]),
        "interval": IntervalTrigger(minutes=5, timezone=BERLIN),
    }
    for name, trigger in triggers.items():
        scheduler.add_job("textwrap:fill", trigger, id=name, args=["a b"], kwargs={"width": 2})
    scheduler.export_jobs(str(file))
    pickles = [(each.id, pickle.dumps(each.__getstate__())) for each in scheduler.get_jobs()]
    scheduler.shutdown()
    damaged.write_text('{"jobs": [{"no": "id"}]}')

    exported = import_jobs("jobs", read_jobs(file), "UTC")

    assert exported == import_jobs("jobs", sorted(pickles), "UTC")
    assert len(exported.targets) == len(triggers)
    with pytest.raises(UsageError, match="has no jobs"):
        read_jobs(damaged)


def test_the_start_of_an_interval_is_kept_while_it_is_ahead() -> None:
    """A job that was to begin in December ran at the first start of herdbeat."""
    december = datetime(2090, 12, 1, tzinfo=UTC)

    ahead = keys_of(IntervalTrigger(hours=1, start_date=december, timezone=UTC))
    begun = keys_of(IntervalTrigger(hours=1, start_date=datetime(2020, 12, 1, tzinfo=UTC), timezone=UTC))

    assert ahead["starts_at"] == "2090-12-01T00:00:00Z"
    assert "starts_at" not in begun


def test_a_whole_job_store_is_a_fleet_that_loads(tmp_path: Path) -> None:
    document = imported(
        ("nightly", JOB),
        ("0123456789abcdef0123456789abcdef", pickled(IntervalTrigger(minutes=5, timezone=UTC))),
    )

    fleet = fleet_of(document, tmp_path)

    assert [each.name for each in fleet.targets] == ["nightly", "getcwd"]
