"""The measurements of `bench.load` measure what they claim. No test checks speed: `make bench` does."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from bench.load.__main__ import main
from bench.load.lateness import Load, measure_fresh_store
from bench.load.run_monitor import Percentiles
from bench.load.suite import SuiteSize
from bench.load.throughput import measure_throughput

from herdbeat.store.reader import Filter, SqliteReader

TINY = SuiteSize(beats=20, seconds=0.1, warm_up=0, stored=10, waiting=20, rates=(5,), starts=2)


async def test_every_beat_of_the_throughput_is_in_the_ledger(tmp_path: Path) -> None:
    measured = await measure_throughput(tmp_path, beats=30, max_concurrent=7)

    reader = SqliteReader(tmp_path / "herdbeat.db")
    outcomes = [beat.outcome for beat in reader.beats(Filter(limit=100))]
    reader.close()
    assert outcomes == ["ran"] * 30
    assert measured.beats == 30


async def test_lateness_counts_starts_after_the_warm_up(tmp_path: Path) -> None:
    measured = await measure_fresh_store(tmp_path, Load(rate=50, seconds=0.1, warm_up=0.1, stored=10))

    assert 1 <= measured.count <= 10
    assert 0 <= measured.p50 <= measured.p99 <= measured.longest


def test_percentiles_are_measured_values() -> None:
    times = [timedelta(milliseconds=number) for number in range(1, 101)]

    measured = Percentiles.from_times(times)

    assert (measured.count, measured.p50, measured.p99, measured.longest) == (100, 50.0, 99.0, 100.0)


def test_the_suite_prints_json_and_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"], tmp_path, TINY)

    answer = json.loads(capsys.readouterr().out)
    assert [item["name"].split(":")[0] for item in answer["items"]] == [
        "disk",
        "throughput",
        "lateness at 5 beats/s, 10 stored",
        "lateness beside 20 that wait for another target",
        "lateness beside 2 commands/s",
    ]
    assert [sorted(item) for item in answer["items"]] == [["goal", "met", "name", "values"]] * 5
    assert list(tmp_path.iterdir()) == []
