"""The log as JSON: one object per line, whatever is logged, and no secret in it."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdbeat.bootstrap.log_output import (
    JsonLineStream,
    JsonLogFormatter,
    LogFormat,
    choose_log_format,
    log_to_stream,
)
from herdbeat.errors import UsageError
from herdbeat.redaction import register_secrets

log = logging.getLogger("herdbeat.test")


def entries(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]


def test_an_entry_has_time_level_logger_and_message() -> None:
    stream = io.StringIO()

    with log_to_stream(stream, LogFormat.JSON):
        log.info("run finished schedule=%s", "a")

    (entry,) = entries(stream)
    assert {name: entry[name] for name in ("level", "logger", "message")} == {
        "level": "info",
        "logger": "herdbeat.test",
        "message": "run finished schedule=a",
    }
    assert str(entry["time"]).endswith("Z")


def test_a_traceback_is_part_of_its_line_and_hides_secrets() -> None:
    register_secrets(["s3cret-in-the-log"])
    stream = io.StringIO()

    with log_to_stream(stream, LogFormat.JSON):
        error = ValueError("s3cret-in-the-log\nsecond line")
        log.error("it failed token=%s", "s3cret-in-the-log", exc_info=error)

    (entry,) = entries(stream)
    assert "second line" in str(entry["traceback"])
    assert "s3cret-in-the-log" not in stream.getvalue()


@given(st.text())
def test_any_message_is_one_line(text: str) -> None:
    record = logging.LogRecord("herdbeat", logging.WARNING, __file__, 1, "%s", (text,), None)

    line = JsonLogFormatter().format(record)

    assert len(line.splitlines()) == 1
    assert json.loads(line)["level"] == "warning"


def test_lines_for_people_become_entries() -> None:
    stream = io.StringIO()

    with log_to_stream(stream, LogFormat.JSON):
        lines = JsonLineStream()
        lines.write("Stopping: waiting ")
        lines.write("for 1 run.\n\nnext\nunfinished")

    assert [entry["message"] for entry in entries(stream)] == ["Stopping: waiting for 1 run.", "next"]


def test_text_has_warnings_only() -> None:
    stream = io.StringIO()

    with log_to_stream(stream):
        log.info("not shown")
        log.warning("shown")
    log.warning("after the block")

    assert stream.getvalue() == "shown\n"


@pytest.mark.parametrize(
    ("option", "variable", "setting", "chosen"),
    [
        ("json", "text", "text", LogFormat.JSON),
        (None, "JSON", "text", LogFormat.JSON),
        (None, "", "json", LogFormat.JSON),
        (None, "text", "json", LogFormat.TEXT),
    ],
)
def test_the_option_outranks_the_variable_and_that_the_file(
    option: str | None, variable: str, setting: str, chosen: LogFormat
) -> None:
    assert choose_log_format(option, {"HERDBEAT_LOG_FORMAT": variable}, setting) is chosen


def test_a_wrong_variable_is_an_error() -> None:
    with pytest.raises(UsageError, match="HERDBEAT_LOG_FORMAT"):
        choose_log_format(None, {"HERDBEAT_LOG_FORMAT": "xml"}, "text")
