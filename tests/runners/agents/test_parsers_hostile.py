"""Output that is cut, garbled, endless or hostile: never an exception, never a success that the CLI did not report."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_output import FOLDER, get_end, parse, pick, read_sample

from herdbeat.domain.agent_run import FinishReason
from herdbeat.runners.agents.events import AgentEvent, AgentNotice, AgentText, EndedBy, ProcessEnd, ToolDenied
from herdbeat.runners.agents.parsers import ParserName
from herdbeat.runners.agents.parsers.lines import MAX_ANSWER_BYTES

PARSER_BY_PREFIX = {
    "claude": ParserName.CLAUDE,
    "cursor": ParserName.CLAUDE,
    "qwen": ParserName.CLAUDE,
    "codex": ParserName.CODEX,
    "gemini": ParserName.GEMINI,
    "agy": ParserName.GEMINI,
    "opencode": ParserName.OPENCODE,
    "copilot": ParserName.COPILOT,
    "aider": ParserName.TEXT,
}


def list_samples() -> list[tuple[ParserName, str]]:
    captured = [path.relative_to(FOLDER / "captures") for path in (FOLDER / "captures").rglob("*.jsonl")]
    written = [path.relative_to(FOLDER / "samples") for path in (FOLDER / "samples").iterdir()]
    names = sorted(path.as_posix() for path in captured + written)
    return [(parser, name) for name in names for prefix, parser in PARSER_BY_PREFIX.items() if name.startswith(prefix)]


SAMPLES = list_samples()
ENDS = [
    ProcessEnd(code=0),
    ProcessEnd(code=1, stderr="Error: x"),
    ProcessEnd(code=-9),
    ProcessEnd(code=143, ended_by=EndedBy.TIMEOUT),
    ProcessEnd(code=None, ended_by=EndedBy.CANCEL),
]


def list_cuts(data: bytes) -> range:
    """Return every place of a short output, and every eleventh of a long one, whose lines are of the same kinds."""
    return range(0, len(data) + 1, 1 if len(data) < 1_600 else 11)


def join_texts(events: list[AgentEvent]) -> list[AgentEvent]:
    """Return the events with neighbouring texts as one: plain text is passed on as it arrives."""
    joined: list[AgentEvent] = []
    for event in events:
        if joined and isinstance(event, AgentText) and isinstance(last := joined[-1], AgentText):
            joined[-1] = replace(last, text=last.text + event.text)
        else:
            joined.append(event)
    return joined


def test_there_are_samples_for_every_parser() -> None:
    assert {parser for parser, _ in SAMPLES} == set(ParserName)
    assert len(SAMPLES) > 30


@pytest.mark.parametrize(("parser", "sample"), SAMPLES)
def test_where_the_bytes_are_cut_changes_nothing(parser: ParserName, sample: str) -> None:
    data = read_sample(sample)
    whole = join_texts(parse(parser, data))

    for cut in list_cuts(data):
        assert join_texts(parse(parser, [data[:cut], data[cut:]])) == whole
    assert join_texts(parse(parser, [data[at : at + 1] for at in range(len(data))])) == whole


@pytest.mark.parametrize(("parser", "sample"), SAMPLES)
def test_a_run_killed_at_any_byte_is_no_success_unless_its_result_had_come(parser: ParserName, sample: str) -> None:
    data = read_sample(sample)
    killed = ProcessEnd(code=-9)

    for cut in list_cuts(data):
        end = get_end(parse(parser, data[:cut], killed))
        assert not end.ok or _has_result(parser, data[:cut])


JSON_SAMPLES = [(parser, sample) for parser, sample in SAMPLES if parser is not ParserName.TEXT]


@pytest.mark.parametrize(("parser", "sample"), JSON_SAMPLES)
def test_output_that_ends_at_any_byte_is_no_success_unless_its_last_word_was_one(
    parser: ParserName, sample: str
) -> None:
    """The exit code is 0 all the same: as of a CLI whose pipe was cut."""
    data = read_sample(sample)
    if _says_success(parser, data) is None:
        pytest.fail(f"{sample} has no line that the oracle knows")

    wrong = [
        cut
        for cut in range(len(data) + 1)
        if get_end(parse(parser, data[:cut])).ok and not _says_success(parser, data[:cut])
    ]

    assert wrong == []


def _says_success(parser: ParserName, data: bytes) -> bool | None:
    """Return what the last line says that decides; None if there is no object at all. Judged without the parser."""
    found = None
    for line in data.split(b"\n"):
        value = json.loads(line) if line.startswith(b"{") and _is_json(line.decode("utf-8", "replace")) else None
        if not isinstance(value, dict):
            continue
        kind, part = value.get("type") or value.get("event"), value.get("part") or value.get("result")
        found = found or False
        if parser in (ParserName.CLAUDE, ParserName.GEMINI) and kind == "result":
            found = value.get("is_error") is False or "success" in str(value.get("status") or part).lower()
        elif parser is ParserName.COPILOT and kind in ("result", "assistant.turn_start"):
            found = kind == "result" and value.get("exitCode") == 0
        elif kind in ("turn.completed", "turn.failed"):
            found = kind == "turn.completed"
        elif parser is ParserName.OPENCODE and kind in ("step_start", "error", "step_finish"):
            found = kind == "step_finish" and isinstance(part, dict) and part.get("reason") != "error"
    return found


def _has_result(parser: ParserName, data: bytes) -> bool:
    """Return whether a line that reports success is complete, apart from the LF. Judged without the parser."""
    marks = {ParserName.CLAUDE: '"type":"result"', ParserName.CODEX: '"turn.completed"', ParserName.GEMINI: '"result"'}
    marks[ParserName.COPILOT] = marks[ParserName.CLAUDE]
    for line in data.decode("utf-8", "replace").split("\n"):
        if parser in marks and marks[parser] in line and line.endswith("}") and _is_json(line):
            return True
    return False


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("parser", ParserName)
@pytest.mark.parametrize("end", ENDS)
def test_no_output_at_all_is_no_success_but_for_text(parser: ParserName, end: ProcessEnd) -> None:
    finished = get_end(parse(parser, b"", end))

    assert finished.ok == (parser is ParserName.TEXT and end.is_clean)


@given(
    parser=st.sampled_from([name for name in ParserName if name is not ParserName.TEXT]),
    chunks=st.lists(st.binary(max_size=200), max_size=10),
    end=st.sampled_from(ENDS),
)
@settings(max_examples=300, deadline=None)
def test_garbage_raises_nothing_and_is_no_success(parser: ParserName, chunks: list[bytes], end: ProcessEnd) -> None:
    assert not get_end(parse(parser, chunks, end)).ok


TYPE_NAMES = """
    system assistant user result rate_limit_event tool_call thread.started turn.started turn.completed turn.failed
    item.started item.completed error init message tool_use tool_result step_update step_start step_finish text
"""
KEY_NAMES = """
    subtype message content usage is_error result errors permission_denials modelUsage item part state tokens cache cost
    rate_limit_info resetsAt status session_id model mcp_servers stats error tool_call step_update reason data
    api_error_status total_cost_usd num_turns event init id tool_info
"""
TYPES, KEYS = st.sampled_from(TYPE_NAMES.split()), st.sampled_from(KEY_NAMES.split())
ODD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(alphabet=st.characters(), max_size=20),
    st.sampled_from(["init", "success", "rejected", "allowed", "stop", "completed", "\ud800", "\0", "429"]),
)
VALUES = st.recursive(
    ODD_VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)


@given(
    parser=st.sampled_from(ParserName),
    lines=st.lists(st.tuples(TYPES, st.dictionaries(KEYS, VALUES, max_size=6)), max_size=6),
    end=st.sampled_from(ENDS),
)
@settings(max_examples=150, deadline=None)
def test_objects_of_the_wrong_shape_raise_nothing(
    parser: ParserName, lines: list[tuple[str, dict[str, Any]]], end: ProcessEnd
) -> None:
    data = b"".join(json.dumps({"type": kind, "event": kind, **rest}).encode() + b"\n" for kind, rest in lines)

    events = parse(parser, data, end)

    finished = get_end(events)
    assert finished.ok == (finished.reason is FinishReason.COMPLETED)
    assert_storable(events)


def assert_storable(events: list[AgentEvent]) -> None:
    """Every text can be written to a database and to a terminal."""
    for text in (value for event in events for value in asdict(event).values() if isinstance(value, str)):
        text.encode()
        assert not set(text) & {"\0", "\x1b", "\r"}


@given(
    sample=st.sampled_from([each for each in SAMPLES if each[0] is not ParserName.TEXT]),
    at=st.floats(0, 1),
    garbage=st.binary(max_size=60),
)
@settings(max_examples=300, deadline=None)
def test_garbage_between_two_lines_changes_neither(sample: tuple[ParserName, str], at: float, garbage: bytes) -> None:
    parser, name = sample
    lines = read_sample(name).splitlines(keepends=True)
    place = round(at * len(lines))
    noise = b"# " + garbage.replace(b"\n", b" ") + b"\n"

    events = parse(parser, [*lines[:place], noise, *lines[place:]])

    meant = [event for event in parse(parser, lines) if not isinstance(event, AgentNotice)]
    assert [event for event in events if not isinstance(event, AgentNotice)] == meant


def test_a_line_of_ten_megabytes_is_read() -> None:
    text = "x" * 10_000_000
    line = {"type": "result", "subtype": "success", "is_error": False, "result": text + "\nNOTHING TO REPORT"}

    end = get_end(parse(ParserName.CLAUDE, json.dumps(line).encode() + b"\n"))

    assert end.ok
    assert len(end.answer) == MAX_ANSWER_BYTES


def test_a_line_beyond_the_limit_is_dropped_and_the_rest_is_read() -> None:
    hello = read_sample("claude/hello.jsonl")
    huge = b'{"type":"user","message":"' + b"x" * 5_000 + b'"}\n'

    events = parse(ParserName.CLAUDE, huge + hello, max_line_bytes=4_096)

    assert get_end(events).ok
    assert "5028 bytes" in pick(events, AgentNotice)[0].text


def test_a_result_beyond_the_limit_is_no_success_even_after_an_earlier_one() -> None:
    hello = read_sample("claude/hello.jsonl")
    huge = b'{"type":"result","subtype":"success","is_error":true,"result":"' + b"x" * 5_000 + b'"}\n'

    end = get_end(parse(ParserName.CLAUDE, hello + huge, max_line_bytes=4_096))

    assert not end.ok
    assert "more than can be read" in end.message


def test_an_error_beyond_the_limit_is_no_success_after_a_finished_step() -> None:
    hello = read_sample("opencode/hello.jsonl")
    huge = b'{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":"' + b"x" * 5_000 + b'"}}\n'

    end = get_end(parse(ParserName.OPENCODE, hello + huge, max_line_bytes=4_096))

    assert not end.ok
    assert "more than can be read" in end.message


@pytest.mark.parametrize(
    ("status", "ok"),
    [
        ("SUCCESS", True),
        ("TASK_COMPLETED", True),
        ("NOT_COMPLETED", False),
        ("partially_done", False),
        ("failed", False),
    ],
)
def test_a_status_of_agy_that_denies_its_success_is_none(status: str, ok: bool) -> None:
    line = {"event": "result", "result": {"conversation_id": "c", "status": status, "response": "Half of it."}}

    assert get_end(parse(ParserName.GEMINI, json.dumps(line).encode())).ok is ok


@pytest.mark.parametrize("parser", ParserName)
def test_endless_short_lines_become_few_events(parser: ParserName) -> None:
    """A child that prints `y` without end."""
    events = parse(parser, [b"y\n" * 32_768] * 4)

    assert len(events) < 1_100
    assert len(get_end(events).answer) <= MAX_ANSWER_BYTES


def test_a_result_after_endless_noise_is_read() -> None:
    noise = b"warning: x\n" * 5_000

    assert get_end(parse(ParserName.CLAUDE, noise + read_sample("claude/hello.jsonl") + noise)).ok
    denied = noise + read_sample("opencode-denied.jsonl")
    assert len(pick(parse(ParserName.OPENCODE, denied), ToolDenied)) == 1


def test_an_endless_line_takes_no_memory() -> None:
    from herdbeat.runners.agents.parsers.lines import LineSplitter

    splitter = LineSplitter(max_line_bytes=100_000)
    for _ in range(1_000):
        assert splitter.feed(b"x" * 10_000) == []

    assert len(splitter._buffer) <= 100_000
    (line,) = splitter.feed(b"\n")
    assert (line.is_dropped, line.size) == (True, 10_000_000)


@pytest.mark.parametrize("parser", ParserName)
def test_deep_nesting_and_huge_numbers_are_survived(parser: ParserName) -> None:
    lines = [
        b'{"type":"result","a":' + b"[" * 200_000 + b"\n",
        b'{"type":"result","num_turns":' + b"9" * 5_000 + b"}\n",
    ]

    get_end(parse(parser, lines))


def test_an_answer_is_cut_at_a_whole_character() -> None:
    line = {"type": "result", "subtype": "success", "is_error": False, "result": "é" * 60_000}

    answer = get_end(parse(ParserName.CLAUDE, json.dumps(line).encode())).answer

    assert answer == "é" * (MAX_ANSWER_BYTES // 2)
