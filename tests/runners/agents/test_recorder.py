"""What is kept of a run: its log, its steps, its answer, and whether it needs somebody."""

from datetime import datetime, timedelta

import pytest
from tests.support.agent_output import NODE_ZONE, NOW, parse, read_sample

from herdbeat.domain.agent_run import AgentReport, FinishReason, LimitReached, SessionTotals, TokenUsage
from herdbeat.runners.agents.events import (
    AgentEvent,
    AgentFinished,
    AgentNotice,
    AgentStarted,
    AgentText,
    EndedBy,
    ProcessEnd,
    ToolCall,
    ToolDenied,
    ToolResult,
    UsageSeen,
)
from herdbeat.runners.agents.parsers import ParserName, open_parser
from herdbeat.runners.agents.recorder import MAX_NEEDS, MAX_STEPS, AgentRecorder
from herdbeat.runners.run_log import LogStream
from herdbeat.scheduler.spend import charge_run

DONE = AgentFinished(ok=True, reason=FinishReason.COMPLETED, answer="Done.", last_line="Done.")


def replay(
    *events: AgentEvent, usage_is_cumulative: bool = False, fails_when_denied: bool = False
) -> tuple[AgentRecorder, str]:
    """Record events a second apart; return the recorder and the log."""
    recorder = AgentRecorder(usage_is_cumulative=usage_is_cumulative, fails_when_denied=fails_when_denied)
    log = ""
    for second, event in enumerate(events):
        log += "".join(piece.text for piece in recorder.record(event, NOW + timedelta(seconds=second)))
    return recorder, log


def replay_sample(parser: ParserName, name: str, code: int = 0) -> tuple[AgentReport, str]:
    recorder, log = replay(*parse(parser, read_sample(name), ProcessEnd(code=code)))
    return recorder.report(), log


def test_a_tool_call_is_one_line_of_the_log() -> None:
    _, log = replay_sample(ParserName.CLAUDE, "claude/tool-allowed.jsonl")

    assert log.splitlines()[1:] == [
        "→ Bash: touch made-by-tool && echo done",
        "Marigold: three issues triaged.",
    ]


def test_the_log_of_a_run_with_failures_and_denials() -> None:
    _, log = replay_sample(ParserName.CLAUDE, "claude-denied-line.jsonl")

    assert log.splitlines() == [
        "[SandboxDebug] starting",
        "session 9d9c · claude-sonnet-5",
        "the MCP server jira did not start",
        "→ Bash: touch x",
        "denied, because it needs approval: Bash: touch in '/w' needs approval.",
        "  failed: This command requires approval",
    ]


def test_pieces_of_a_text_are_one_line() -> None:
    _, log = replay_sample(ParserName.GEMINI, "gemini-tools.jsonl")

    assert log.splitlines() == [
        "session g1 · gemini-3-pro-preview",
        "First I look.",
        "→ run_shell_command: ls",
        "→ write_file: x",
        "denied, because it needs approval: write_file: x",
        "  failed: Tool execution denied by policy.",
        "Loop detected, stopping execution",
        "All done.",
    ]


def test_the_end_of_a_failure_and_its_limit_are_notes() -> None:
    events = parse(ParserName.CODEX, read_sample("codex-limit-time.jsonl"), ProcessEnd(code=1))
    recorder = AgentRecorder()

    notes = [piece for event in events for piece in recorder.record(event, NOW) if piece.stream is LogStream.NOTE]

    assert [note.text.split(",")[0] for note in notes][1:] == [
        "usage limit reached",
        "rate_limited: You've hit your usage limit. Upgrade to Pro",
    ]


def test_steps_have_a_beginning_an_end_and_a_result() -> None:
    recorder, _ = replay(
        ToolCall(call_id="a", name="Bash", detail="ls"),
        ToolCall(call_id="b", name="Read", detail="x", is_subagent=True),
        ToolResult(call_id="a", ok=True),
        ToolCall(call_id="c", name="Bash", detail="sleep"),
        ToolResult(call_id="b", ok=False),
        DONE,
    )

    steps = recorder.report().steps

    def seconds(moment: datetime | None) -> int | None:
        return None if moment is None else round((moment - NOW).total_seconds())

    assert [(step.name, seconds(step.started_at), seconds(step.ended_at), step.ok) for step in steps] == [
        ("Bash", 0, 2, True),
        ("Read", 1, 4, False),
        ("Bash", 3, None, None),
    ]
    assert [step.is_subagent for step in steps] == [False, True, False]


def test_a_run_of_thousands_of_calls_keeps_a_bounded_number_of_steps() -> None:
    calls = [ToolCall(call_id=str(number), name="Bash") for number in range(MAX_STEPS + 70)]

    report = replay(*calls, DONE)[0].report()

    assert (len(report.steps), report.steps_left_out, report.tool_called) == (MAX_STEPS, 70, True)


def test_a_denied_tool_needs_somebody_and_does_not_fail_the_run() -> None:
    report, _ = replay_sample(ParserName.CLAUDE, "claude/tool-denied.jsonl")

    assert report.ok
    assert report.needs_you == ("Bash: touch made-by-tool && echo done",)
    assert report.error_code == ""


def test_a_denied_tool_fails_the_run_if_that_is_asked_for() -> None:
    recorder, _ = replay(ToolDenied(name="Bash", detail="touch x"), DONE, fails_when_denied=True)

    report = recorder.report()

    assert (report.ok, report.error_code) == (False, "denied")
    assert report.message == "It was denied Bash: touch x."
    assert report.needs_you == ("Bash: touch x",)


def test_denials_of_our_own_tools_and_by_rules_need_nobody() -> None:
    recorder, log = replay(
        ToolDenied(name="mcp__herdbeat__wake_me"), ToolDenied(name="Bash", detail="rm x", by_rule=True), DONE
    )

    assert recorder.report().needs_you == ()
    assert "denied by a rule: Bash: rm x\n" in log


def test_the_same_denial_is_one_need_and_their_number_is_bounded() -> None:
    same = [ToolDenied(name="Bash", detail="x")] * 5
    others = [ToolDenied(name="Bash", detail=f"x{number}") for number in range(100)]

    assert replay(*same, DONE)[0].report().needs_you == ("Bash: x",)
    assert len(replay(*others, DONE)[0].report().needs_you) == MAX_NEEDS


@pytest.mark.parametrize(
    ("last_line", "quiet"),
    [
        ("NOTHING TO REPORT", True),
        ("[SILENT]", True),
        ("nothing to report", False),
        ("NOTHING TO REPORT.", False),
        ("", False),
    ],
)
def test_an_agent_is_quiet_if_its_last_line_says_so(last_line: str, quiet: bool) -> None:
    finished = AgentFinished(ok=True, reason=FinishReason.COMPLETED, answer=f"x\n{last_line}", last_line=last_line)

    assert replay(finished)[0].report().quiet is quiet


def test_the_last_line_of_an_answer_counts_even_beyond_what_is_kept() -> None:
    parser = open_parser(ParserName.TEXT, NODE_ZONE)
    recorder = AgentRecorder()
    events = parser.feed(b"word " * 50_000 + b"\nNOTHING TO REPORT\n\n", NOW) + parser.close(ProcessEnd(), NOW)
    for event in events:
        recorder.record(event, NOW)

    report = recorder.report()

    assert report.quiet
    assert len(report.answer.encode()) <= 64 * 1024
    assert "NOTHING" not in report.answer


def test_a_failed_run_and_one_that_needs_somebody_are_never_quiet() -> None:
    failed = AgentFinished(ok=False, reason=FinishReason.API_ERROR, last_line="[SILENT]", message="x")
    silent = AgentFinished(ok=True, reason=FinishReason.COMPLETED, last_line="[SILENT]", answer="[SILENT]")

    assert not replay(failed)[0].report(quiet=True).quiet
    assert not replay(ToolDenied(name="Bash"), silent)[0].report().quiet
    assert not replay(silent)[0].report(needs_you="Which branch?").quiet
    assert replay(DONE)[0].report(quiet=True).quiet


def test_what_the_agent_asks_comes_before_what_it_was_denied() -> None:
    report = replay(ToolDenied(name="Bash"), DONE)[0].report(needs_you="Which branch?")

    assert report.needs_you == ("Which branch?", "Bash")


def test_a_success_without_an_answer_is_marked() -> None:
    empty = AgentFinished(ok=True, reason=FinishReason.COMPLETED)
    failed = AgentFinished(ok=False, reason=FinishReason.NO_RESULT, message="x")

    assert replay(empty)[0].report().empty_answer
    assert not replay(failed)[0].report().empty_answer
    assert not replay(DONE)[0].report().empty_answer


@pytest.mark.parametrize(
    ("sample", "tool_called"), [("claude/limit.jsonl", False), ("claude-session-limit.jsonl", False)]
)
def test_a_limit_before_any_tool_may_be_tried_again(sample: str, tool_called: bool) -> None:
    report, _ = replay_sample(ParserName.CLAUDE, sample, code=1)

    assert (report.error_code, report.tool_called) == ("rate_limited", tool_called)
    assert report.limit is not None


def test_a_limit_after_a_tool_call_is_told() -> None:
    report = replay(
        ToolCall(call_id="a", name="Bash"),
        LimitReached(),
        AgentFinished(ok=False, reason=FinishReason.RATE_LIMITED, message="limit"),
    )[0].report()

    assert (report.error_code, report.tool_called, report.limit) == ("rate_limited", True, LimitReached())


def test_a_killed_run_keeps_session_model_and_what_it_has_used() -> None:
    lines = read_sample("claude/max-turns.jsonl").splitlines(keepends=True)[:3]
    killed = ProcessEnd(code=-9, ended_by=EndedBy.TIMEOUT)

    report = replay(*parse(ParserName.CLAUDE, lines, killed))[0].report()

    assert (report.ok, report.error_code) == (False, "timed_out")
    assert report.session_id == "809b277d-dee0-4aa9-8d0d-66a7e21aa311"
    assert report.model == "claude-opus-4-8[1m]"
    assert report.counted.totals.usage == TokenUsage(input_tokens=25, output_tokens=1)
    assert report.counted.is_partial


def test_a_recorder_without_an_end_has_no_result() -> None:
    report = replay(AgentStarted(session_id="s"), UsageSeen(usage=TokenUsage(input_tokens=5)))[0].report()

    assert (report.ok, report.error_code, report.session_id) == (False, "no_result", "s")
    assert report.counted.totals == SessionTotals(usage=TokenUsage(input_tokens=5))
    assert report.counted.is_partial


def test_resuming_a_codex_thread_is_charged_once() -> None:
    charges, last = [], None
    for name in ("codex/hello.jsonl", "codex/resume.jsonl"):
        recorder, _ = replay(*parse(ParserName.CODEX, read_sample(name)), usage_is_cumulative=True)
        charge = charge_run(recorder.report().counted, last)
        charges.append(charge.usage)
        last = charge.stored

    one_run = TokenUsage(input_tokens=25, cache_read_tokens=5, output_tokens=15)
    assert charges == [one_run, one_run]


def test_resuming_a_claude_session_that_counts_anew_is_charged_each_time() -> None:
    charges, last = [], None
    for name in ("claude/hello.jsonl", "claude/resume.jsonl"):
        recorder, _ = replay(*parse(ParserName.CLAUDE, read_sample(name)), usage_is_cumulative=True)
        charge = charge_run(recorder.report().counted, last)
        charges.append(charge.usd)
        last = charge.stored

    assert charges == [0.0005, 0.0005]


def test_the_model_that_was_asked_for_is_used_if_the_cli_names_none() -> None:
    recorder = AgentRecorder(model="gpt-6")
    for event in parse(ParserName.CODEX, read_sample("codex/hello.jsonl")):
        recorder.record(event, NOW)

    assert recorder.report().model == "gpt-6"


def test_text_and_notices_never_run_together() -> None:
    _, log = replay(
        AgentText(text="a"), AgentText(text="b", is_delta=True), AgentNotice(text="warning"), AgentText(text="c")
    )

    assert log == "ab\nwarning\nc"
