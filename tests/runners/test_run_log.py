"""The log of a run: written as records, read as lines."""

import logging
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runner_jobs import NOON

from herdbeat.redaction import register_secrets
from herdbeat.runners.run_log import (
    LogFollower,
    LogStream,
    RawOutput,
    RemoteLogFollower,
    RunLog,
    find_log,
    find_raw_output,
    prune_logs,
    read_log,
)
from herdbeat.testing.clock import FakeClock


def new_log(folder: Path, cap: int = 1000) -> RunLog:
    return RunLog(folder, 7, FakeClock(NOON), cap)


def test_a_log_is_in_the_folder_of_its_day_and_private(tmp_path: Path) -> None:
    log = new_log(tmp_path)

    log.write(LogStream.OUT, "hello\n")
    log.close()

    path = find_log(tmp_path, 7)
    assert path == tmp_path / "logs" / "2026-03-02" / "0007.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_log_without_records_has_no_file(tmp_path: Path) -> None:
    log = new_log(tmp_path)

    log.write(LogStream.OUT, "")
    log.close()

    assert find_log(tmp_path, 7) is None


def test_a_full_log_notes_it_once_and_takes_only_notes(tmp_path: Path) -> None:
    log = new_log(tmp_path, cap=5)

    for _ in range(4):
        log.write(LogStream.OUT, "abc\n")
    log.note("ended")
    log.close()

    assert [line.text for line in read_log(tmp_path / "logs" / "2026-03-02" / "0007.jsonl")] == [
        "abc",
        "abc",
        "the log is full: only the end of the remaining output is kept",
        "ended",
    ]


def test_a_disk_error_ends_the_log_but_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "logs").write_text("a file where a folder should be", encoding="utf-8")
    log = new_log(tmp_path)

    with caplog.at_level(logging.WARNING):
        log.write(LogStream.OUT, "hello\n")
        log.write(LogStream.OUT, "hello\n")
        log.close()

    assert len(caplog.records) == 1
    assert "run log stopped run=0007" in caplog.text


def test_a_follower_returns_each_complete_line_once(tmp_path: Path) -> None:
    log, follower = new_log(tmp_path), LogFollower(tmp_path / "logs" / "2026-03-02" / "0007.jsonl")

    seen = [[line.text for line in follower.poll()]]
    for piece in ("one\ntw", "o\n", "three"):
        log.write(LogStream.OUT, piece)
        seen.append([line.text for line in follower.poll()])
    seen.append([line.text for line in follower.flush()])
    log.close()

    assert seen == [[], ["one"], ["two"], [], ["three"]]


def test_old_days_are_pruned_whole(tmp_path: Path) -> None:
    for day in ("2026-01-31", "2026-02-01", "2026-03-02"):
        (tmp_path / "logs" / day).mkdir(parents=True)
        (tmp_path / "logs" / day / "0007.jsonl").touch()

    count = prune_logs(tmp_path, date(2026, 2, 1))

    assert count == 1
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["2026-02-01", "2026-03-02"]


def test_a_torn_record_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "0007.jsonl"
    whole = b'{"at": "2026-03-02T12:00:00+00:00", "stream": "out", "text": "hello\\n"}\n'

    path.write_bytes(whole + b'{"at": "2026-\n' + b"[]\n" + whole + whole[:20])

    assert [line.text for line in read_log(path)] == ["hello", "hello"]


@given(st.lists(st.tuples(st.sampled_from(LogStream), st.text(alphabet="ab\n\u2028\r😀", max_size=8)), max_size=20))
def test_a_written_log_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[LogStream, str]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = new_log(folder)

    for stream, text in pieces:
        log.write(stream, text)
    log.close()

    path = find_log(folder, 7)
    lines = [] if path is None else read_log(path)
    for stream in LogStream:
        written = "".join(text for to, text in pieces if to is stream)
        assert [line.text for line in lines if line.stream is stream] == written.removesuffix("\n").split("\n")[
            : len(written)
        ]


def test_overlapping_parts_of_a_stored_log_return_each_line_once() -> None:
    records = [f'{{"at": "2026-03-02T12:00:0{n}+00:00", "stream": "out", "text": "line {n}\\n"}}\n' for n in range(8)]
    ends = iter([None, "".join(records[0:3]), "".join(records[0:3]), "".join(records[1:5]), "".join(records[3:8])])
    log = RemoteLogFollower(lambda: next(ends))

    lines_read = [[line.text for line in log.poll()] for _ in range(5)]

    assert lines_read == [
        [],
        ["line 0", "line 1", "line 2"],
        [],
        ["line 3", "line 4"],
        ["line 5", "line 6", "line 7"],
    ]


def test_a_part_of_a_stored_log_without_overlap_is_returned_whole() -> None:
    records = [f'{{"at": "2026-03-02T12:00:0{n}+00:00", "stream": "out", "text": "line {n}\\n"}}\n' for n in range(8)]
    ends = iter([records[0], "".join(records[5:7])])
    log = RemoteLogFollower(lambda: next(ends))

    lines_read = [line.text for _ in range(2) for line in log.poll()]

    assert lines_read == ["line 0", "line 5", "line 6"]


def write_raw(folder: Path, data: bytes, chunk_bytes: int, cap: int = 10_000_000) -> bytes:
    raw = RawOutput(folder, 7, FakeClock(NOON), cap)
    for start in range(0, len(data), chunk_bytes):
        raw.write(data[start : start + chunk_bytes])
    raw.close()
    path = find_raw_output(folder, 7)
    return path.read_bytes() if path else b""


def test_raw_output_is_kept_byte_by_byte_up_to_its_cap(tmp_path: Path) -> None:
    data = b"one\n\xff\xfe\n" + "ö".encode() * 300_000 + b"\nlast"

    assert write_raw(tmp_path / "whole", data, 4_096) == data
    assert write_raw(tmp_path / "cut", data, 4_095, cap=1_000) == data[:1_000]


def test_a_line_of_megabytes_is_written_while_it_comes(tmp_path: Path) -> None:
    """Joined with every chunk, a line of 10 MB took twenty seconds, in which beats waited."""
    raw = RawOutput(tmp_path, 7, FakeClock(NOON), 10_000_000)
    for _ in range(1_000):
        raw.write(b"q" * 1_000)

    path = find_raw_output(tmp_path, 7)
    assert path is not None
    assert path.stat().st_size > 500_000
    raw.close()


@given(before=st.integers(0, 600_000), chunk_bytes=st.integers(10_000, 300_000))
def test_a_secret_in_a_long_line_is_hidden_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, before: int, chunk_bytes: int
) -> None:
    register_secrets(["sk-of-a-long-line-0123456789"])
    data = b"x" * before + b"sk-of-a-long-line-0123456789" + b"y" * 300_000 + b"\n"

    written = write_raw(tmp_path_factory.mktemp("raw"), data, chunk_bytes)

    assert b"0123456789" not in written
    assert written.count(b"x") == before
