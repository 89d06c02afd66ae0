"""What every captured and documented output means: how the run ended, what it answered and what it cost."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.agent_output import NODE_ZONE, NOW, get_end, parse, pick, read_sample, read_stderr

from herdbeat.domain.agent_run import FinishReason, LimitReached, TokenUsage
from herdbeat.runners.agents.events import (
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
from herdbeat.runners.agents.presets import PRESETS

ANSWER = "Marigold: three issues triaged."
DONE = FinishReason.COMPLETED


@pytest.mark.parametrize(
    ("parser", "sample", "code", "reason", "answer", "tokens", "usd"),
    [
        ("claude", "claude/hello.jsonl", 0, DONE, ANSWER, 40, 0.0005),
        ("claude", "claude/hello-model.jsonl", 0, DONE, ANSWER, 40, 0.0003),
        ("claude", "claude/resume.jsonl", 0, DONE, ANSWER, 40, 0.0005),
        ("claude", "claude/schema.jsonl", 0, DONE, ANSWER, 80, 0.001),
        ("claude", "claude/tool-allowed.jsonl", 0, DONE, ANSWER, 80, 0.001),
        ("claude", "claude/tool-bypass.jsonl", 0, DONE, ANSWER, 80, 0.001),
        ("claude", "claude/tool-denied.jsonl", 0, DONE, ANSWER, 80, 0.001),
        ("claude", "claude/tool-dontask.jsonl", 0, DONE, ANSWER, 80, 0.001),
        ("claude", "claude/badkey.jsonl", 1, FinishReason.AUTH_FAILED, "", 0, 0.0),
        ("claude", "claude/nokey.jsonl", 1, FinishReason.AUTH_FAILED, "", 0, 0.0),
        ("claude", "claude/limit.jsonl", 1, FinishReason.RATE_LIMITED, "", 0, 0.0),
        ("claude", "claude-session-limit.jsonl", 1, FinishReason.RATE_LIMITED, "", 0, None),
        ("claude", "claude/budget.jsonl", 1, FinishReason.BUDGET_EXHAUSTED, "", 40, 0.0005),
        ("claude", "claude/max-turns.jsonl", 1, FinishReason.MAX_TURNS, "", 80, 0.001),
        ("claude", "claude/resume-unknown.jsonl", 1, FinishReason.UNKNOWN_SESSION, "", 0, 0.0),
        ("claude", "claude/hang-INT.jsonl", 130, FinishReason.NO_RESULT, "", None, None),
        ("claude", "claude/hang-TERM.jsonl", 143, FinishReason.NO_RESULT, "", None, None),
        ("claude", "claude-denied-line.jsonl", 0, DONE, "I could not do it.", 1002, 0.02),
        ("claude", "qwen/hello.jsonl", 0, DONE, ANSWER, 80, None),
        ("claude", "cursor.jsonl", 0, DONE, "Hello.", None, None),
        ("codex", "codex/hello.jsonl", 0, DONE, ANSWER, 40, None),
        ("codex", "codex/resume.jsonl", 0, DONE, ANSWER, 80, None),
        ("codex", "codex/limit.jsonl", 1, FinishReason.RATE_LIMITED, "", None, None),
        ("codex", "codex-limit-time.jsonl", 1, FinishReason.RATE_LIMITED, "", None, None),
        ("codex", "codex/hang-INT.jsonl", 1, FinishReason.NO_RESULT, "", None, None),
        ("codex", "codex-tools.jsonl", 0, DONE, "Two files changed.", 24885, None),
        ("gemini", "gemini/hello.jsonl", 0, DONE, ANSWER, 40, None),
        ("gemini", "gemini/limit.jsonl", 1, FinishReason.NO_RESULT, "", None, None),
        ("gemini", "gemini-tools.jsonl", 0, DONE, "All done.", 1000, None),
        ("gemini", "gemini-error.jsonl", 53, FinishReason.MAX_TURNS, "", 0, None),
        ("gemini", "agy.jsonl", 0, DONE, "Hello.", 65, None),
        ("claude", "qwen/badkey.jsonl", 0, FinishReason.AUTH_FAILED, None, 0, None),
        ("claude", "qwen/tool-denied.jsonl", 0, DONE, "finished", 80, None),
        ("codex", "codex/badkey.jsonl", 1, FinishReason.AUTH_FAILED, "", None, None),
        ("codex", "codex/server-error.jsonl", 1, FinishReason.API_ERROR, "", None, None),
        ("codex", "codex/limit-with-time.jsonl", 1, FinishReason.RATE_LIMITED, "", None, None),
        ("gemini", "gemini/badkey.jsonl", 144, FinishReason.AUTH_FAILED, "", 0, None),
        ("gemini", "gemini/limit-retry-delay.jsonl", 173, FinishReason.RATE_LIMITED, "", 0, None),
        ("opencode", "opencode/badkey.jsonl", 1, FinishReason.AUTH_FAILED, "", None, None),
        ("opencode", "opencode/hello.jsonl", 0, DONE, ANSWER, 40, 0.0003),
        ("opencode", "opencode-tools.jsonl", 0, DONE, "One folder.", 26, 0.0003),
        ("opencode", "opencode-denied.jsonl", 0, DONE, "", 24, 0.0001),
        ("opencode", "opencode-error.jsonl", 1, FinishReason.RATE_LIMITED, "", None, None),
        ("copilot", "copilot/hello.jsonl", 0, DONE, "Hello there.", None, None),
        ("copilot", "copilot/resume.jsonl", 0, DONE, "Hello again.", None, None),
        ("copilot", "copilot/tool-allowed.jsonl", 0, DONE, "Done.", None, None),
        ("copilot", "copilot/tool-denied.jsonl", 0, DONE, "Done.", None, None),
        ("copilot", "copilot/badkey.jsonl", 1, FinishReason.AUTH_FAILED, "", None, None),
        ("copilot", "copilot/limit.jsonl", 1, FinishReason.RATE_LIMITED, "", None, None),
        ("text", "aider-refused.txt", 0, FinishReason.RATE_LIMITED, None, None, None),
        ("text", "aider/badkey.txt", 0, FinishReason.AUTH_FAILED, None, None, None),
        ("text", "aider/limit.txt", 0, FinishReason.RATE_LIMITED, None, None, None),
        ("text", "aider/hello.txt", 0, DONE, "Hello there.", 1_200, 0.0045),
    ],
)
def test_an_output_means(
    parser: ParserName,
    sample: str,
    code: int,
    reason: FinishReason,
    answer: str | None,
    tokens: int | None,
    usd: float | None,
) -> None:
    end = get_end(parse(ParserName(parser), read_sample(sample), ProcessEnd(code=code)))

    assert (end.ok, end.reason) == (reason is DONE, reason)
    assert answer is None or end.answer == answer
    assert (end.usage.total if end.usage else None) == tokens
    assert end.usd == (None if usd is None else pytest.approx(usd))
    assert end.ok or end.message


@pytest.mark.parametrize(
    ("parser", "stderr", "code", "reason", "words"),
    [
        ("claude", "claude/badflag.stderr.txt", 1, FinishReason.REFUSED_TO_START, "unknown option '--no-such-flag'"),
        ("claude", "claude/empty.stderr.txt", 1, FinishReason.REFUSED_TO_START, "Input must be provided"),
        ("claude", "claude/noverbose.stderr.txt", 1, FinishReason.REFUSED_TO_START, "requires --verbose"),
        ("claude", "claude/tool-bypass-root.stderr.txt", 1, FinishReason.REFUSED_TO_START, "root/sudo"),
        ("claude", "claude/resume-unknown.stderr.txt", 1, FinishReason.UNKNOWN_SESSION, "No conversation found"),
        ("codex", "codex/nogit.stderr.txt", 1, FinishReason.REFUSED_TO_START, "--skip-git-repo-check"),
        ("codex", "codex/resume-unknown.stderr.txt", 1, FinishReason.UNKNOWN_SESSION, "no rollout found"),
        ("claude", "qwen/resume-unknown.stderr.txt", 1, FinishReason.UNKNOWN_SESSION, "No saved session found"),
        ("gemini", "gemini/resume-unknown.stderr.txt", 42, FinishReason.UNKNOWN_SESSION, "Invalid session identifier"),
        ("gemini", "gemini/untrusted.stderr.txt", 55, FinishReason.REFUSED_TO_START, "not running in a trusted"),
        ("copilot", "copilot/resume-unknown.stderr.txt", 1, FinishReason.UNKNOWN_SESSION, "No session, task, or name"),
    ],
)
def test_a_cli_that_prints_no_json_is_explained_by_its_stderr(
    parser: str, stderr: str, code: int, reason: FinishReason, words: str
) -> None:
    end = get_end(parse(ParserName(parser), b"", ProcessEnd(code=code, stderr=read_stderr(stderr))))

    assert (end.ok, end.reason) == (False, reason)
    assert words in end.message
    assert "\x1b" not in end.message


def test_an_answer_of_aider_keeps_lines_that_resemble_its_banner() -> None:
    answer = "Model: User has no index.\nGit repo: fine.\nRepo-map: see https://aider.chat/docs."

    end = get_end(parse(ParserName.TEXT, read_sample("aider/hello.txt").replace(b"Hello there.", answer.encode())))

    assert end.answer == answer


@pytest.mark.parametrize(("sample", "by_rule"), [("tool-denied", False), ("tool-rule", True)])
def test_a_denied_tool_of_copilot_was_a_success_without_a_word(sample: str, by_rule: bool) -> None:
    events = parse(ParserName.COPILOT, read_sample(f"copilot/{sample}.jsonl"))

    (denied,) = pick(events, ToolDenied)
    assert (denied.name, denied.by_rule) == ("bash", by_rule)
    assert "touch made-by-tool" in denied.detail
    assert [result.ok for result in pick(events, ToolResult)] == [False]


def test_the_session_and_the_model_of_copilot_are_known() -> None:
    first, second = (
        get_end(parse(ParserName.COPILOT, read_sample(f"copilot/{name}.jsonl"))) for name in ("hello", "resume")
    )

    assert first.session_id == second.session_id != ""
    assert first.model == "gpt-4.1"


def test_an_unknown_session_of_gemini_is_known_by_its_words() -> None:
    """Its exit code is that of any wrong input."""
    stderr = 'Error resuming session: Invalid session identifier "0199".\n'

    end = get_end(parse(ParserName.GEMINI, b"", ProcessEnd(code=42, stderr=stderr)))

    assert end.reason is FinishReason.UNKNOWN_SESSION
    assert get_end(parse(ParserName.GEMINI, b"", ProcessEnd(code=41))).reason is FinishReason.AUTH_FAILED


def test_qwen_that_ends_at_its_turns_without_a_result_has_used_them_up() -> None:
    end = ProcessEnd(code=53, stderr=read_stderr("qwen/max-turns.stderr.txt"))

    finished = get_end(parse(ParserName.CLAUDE, read_sample("qwen/max-turns.jsonl"), end))

    assert (finished.ok, finished.reason) == (False, FinishReason.MAX_TURNS)
    assert "max session turns" in finished.message


def test_the_usage_of_qwen_is_not_said_to_be_that_of_one_run() -> None:
    """A resumed session goes on counting: the second run was once charged for the first, too."""
    end = get_end(parse(ParserName.CLAUDE, read_sample("qwen/tool-allowed.jsonl")))

    assert end.usage == TokenUsage(input_tokens=50, output_tokens=30)
    assert end.own_usage is None
    assert PRESETS["qwen"].usage_is_cumulative


def test_a_timeout_while_the_cli_retries_a_quota_error_is_a_limit() -> None:
    """Gemini retries a 429 by itself for minutes and writes to stderr only."""
    timed_out = ProcessEnd(code=-15, ended_by=EndedBy.TIMEOUT, stderr=read_stderr("gemini/limit.stderr.txt"))

    events = parse(ParserName.GEMINI, read_sample("gemini/limit.jsonl"), timed_out)

    assert get_end(events).reason is FinishReason.RATE_LIMITED
    assert pick(events, LimitReached)[0].stated is False


def test_a_timeout_while_claude_retries_a_429_is_a_limit_and_after_a_529_is_not() -> None:
    retry = b'{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":%d,"error":"%s"}\n'
    timed_out = ProcessEnd(code=143, ended_by=EndedBy.TIMEOUT)

    assert (
        get_end(parse(ParserName.CLAUDE, retry % (429, b"rate_limit"), timed_out)).reason is FinishReason.RATE_LIMITED
    )
    assert get_end(parse(ParserName.CLAUDE, retry % (529, b"overloaded"), timed_out)).reason is FinishReason.TIMED_OUT


def test_a_cancelled_run_is_interrupted_and_keeps_what_it_has_used() -> None:
    lines = read_sample("claude/max-turns.jsonl").splitlines(keepends=True)[:3]

    end = get_end(parse(ParserName.CLAUDE, lines, ProcessEnd(code=-15, ended_by=EndedBy.CANCEL)))

    assert end.reason is FinishReason.INTERRUPTED
    assert end.usage == TokenUsage(input_tokens=25, output_tokens=1)
    assert end.session_id == "809b277d-dee0-4aa9-8d0d-66a7e21aa311"


def test_the_start_tells_session_model_login_and_broken_servers() -> None:
    started = pick(parse(ParserName.CLAUDE, read_sample("claude-denied-line.jsonl")), AgentStarted)

    assert started == [
        AgentStarted(session_id="9d9c", model="claude-sonnet-5", is_subscription=True, failed_mcp_servers=("jira",))
    ]


def test_a_denial_that_is_told_twice_is_reported_once() -> None:
    events = parse(ParserName.CLAUDE, read_sample("claude-denied-line.jsonl"))

    assert pick(events, ToolDenied) == [
        ToolDenied(name="Bash", call_id="toolu_2", detail="touch in '/w' needs approval.")
    ]


@pytest.mark.parametrize("sample", ["claude/tool-denied.jsonl", "claude/tool-dontask.jsonl"])
def test_a_denial_that_only_the_result_tells_is_reported(sample: str) -> None:
    events = parse(ParserName.CLAUDE, read_sample(sample))

    assert [(denied.name, denied.detail) for denied in pick(events, ToolDenied)] == [
        ("Bash", "touch made-by-tool && echo done")
    ]


@pytest.mark.parametrize(
    ("parser", "sample", "calls"),
    [
        ("claude", "claude/tool-allowed.jsonl", [("Bash", "touch made-by-tool && echo done", True)]),
        ("claude", "claude/tool-denied.jsonl", [("Bash", "touch made-by-tool && echo done", False)]),
        ("claude", "cursor.jsonl", [("shell", "rm -r build", False), ("read", "README.md", True)]),
        (
            "codex",
            "codex-tools.jsonl",
            [
                ("shell", "bash -lc ls", True),
                ("edit", "update a.py", True),
                ("mcp__hb__hint", '{"every": "5m"}', True),
                ("shell", "rm -r /", False),
            ],
        ),
        ("gemini", "gemini-tools.jsonl", [("run_shell_command", "ls", True), ("write_file", "x", False)]),
        ("gemini", "agy.jsonl", [("run_command", "ls", True)]),
        ("opencode", "opencode-tools.jsonl", [("bash", "ls", True)]),
        ("opencode", "opencode-denied.jsonl", [("bash", "touch x", False)]),
    ],
)
def test_every_tool_call_has_its_result(parser: str, sample: str, calls: list[tuple[str, str, bool]]) -> None:
    events = parse(ParserName(parser), read_sample(sample))
    results = {result.call_id: result.ok for result in pick(events, ToolResult)}

    assert [(call.name, call.detail, results[call.call_id]) for call in pick(events, ToolCall)] == calls


@pytest.mark.parametrize(
    ("parser", "sample", "denied"),
    [
        ("claude", "cursor.jsonl", [("shell", "rm -r build")]),
        ("codex", "codex-tools.jsonl", [("shell", "rm -r /")]),
        ("gemini", "gemini-tools.jsonl", [("write_file", "x")]),
        ("gemini", "gemini/tool-denied.jsonl", [("run_shell_command", "touch made-by-tool && echo done")]),
        ("claude", "qwen/tool-denied.jsonl", [("run_shell_command", "touch made-by-tool && echo done")]),
        ("opencode", "opencode/tool-denied.jsonl", [("bash", "touch made-by-tool && echo done")]),
        ("opencode", "opencode-denied.jsonl", [("bash", "touch x")]),
        ("opencode", "opencode-tools.jsonl", []),
    ],
)
def test_denials_of_the_other_clis(parser: str, sample: str, denied: list[tuple[str, str]]) -> None:
    events = parse(ParserName(parser), read_sample(sample))

    assert [(each.name, each.detail) for each in pick(events, ToolDenied)] == denied


def test_the_event_of_a_limit_has_the_exact_reset() -> None:
    events = parse(ParserName.CLAUDE, read_sample("claude-session-limit.jsonl"), ProcessEnd(code=1))

    # 1791215400 is in the past by NOW, and the next 9am in Berlin is the next day.
    assert [limit.reset_at for limit in pick(events, LimitReached)] == [datetime(2026, 11, 17, 8, 0, tzinfo=UTC)]


def test_a_rejected_window_does_not_fail_a_run_that_goes_on_with_overage() -> None:
    rejected = b'{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794900000}}\n'

    events = parse(ParserName.CLAUDE, rejected + read_sample("claude/hello.jsonl"))

    assert get_end(events).ok
    assert pick(events, LimitReached) == []


def test_a_window_that_was_rejected_long_before_a_timeout_is_not_its_reason() -> None:
    rejected = b'{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794900000}}\n'
    init, answer, _ = read_sample("claude/hello.jsonl").splitlines(keepends=True)
    timed_out = ProcessEnd(code=143, ended_by=EndedBy.TIMEOUT)

    went_on = parse(ParserName.CLAUDE, [init, rejected, answer], timed_out)
    stopped = parse(ParserName.CLAUDE, [init, answer, rejected], timed_out)

    assert get_end(went_on).reason is FinishReason.TIMED_OUT
    assert get_end(stopped).reason is FinishReason.RATE_LIMITED


@pytest.mark.parametrize(
    ("parser", "sample"),
    [("claude", "claude/hello.jsonl"), ("codex", "codex/hello.jsonl"), ("gemini", "gemini/hello.jsonl")],
)
def test_a_parser_knows_that_the_result_has_come_while_the_process_lives(parser: str, sample: str) -> None:
    opened = open_parser(ParserName(parser), NODE_ZONE)
    lines = read_sample(sample).splitlines(keepends=True)

    states = []
    for line in lines:
        opened.feed(line, NOW)
        states.append(opened.has_result)

    assert states == [False] * (len(lines) - 1) + [True]


def test_a_late_result_without_a_line_end_counts() -> None:
    data = read_sample("claude/hello.jsonl").rstrip(b"\n")

    assert get_end(parse(ParserName.CLAUDE, data, ProcessEnd(code=143, ended_by=EndedBy.TIMEOUT))).ok


def test_a_limit_of_one_model_names_it() -> None:
    reset = int((NOW + timedelta(days=2)).timestamp())
    info = {"status": "rejected", "resetsAt": reset, "rateLimitType": "seven_day_opus"}
    lines = [
        {"type": "rate_limit_event", "rate_limit_info": info},
        {
            "type": "result",
            "subtype": "success",
            "is_error": True,
            "result": "Claude stopped",
            "api_error_status": None,
        },
    ]

    events = parse(ParserName.CLAUDE, [json.dumps(line).encode() + b"\n" for line in lines], ProcessEnd(code=1))

    assert pick(events, LimitReached) == [
        LimitReached(reset_at=NOW + timedelta(days=2), model="opus", text="usage limit seven_day_opus")
    ]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"is_error": True, "api_error_status": 529, "result": "Repeated 529 Overloaded errors"}, "api_error"),
        (
            {
                "is_error": True,
                "api_error_status": 429,
                "result": "API Error: Server is temporarily limiting requests (not your usage limit)",
            },
            "api_error",
        ),
        ({"is_error": True, "api_error_status": 500, "result": "boom"}, "api_error"),
        ({"is_error": True, "api_error_status": 400, "result": "bad model"}, "api_error"),
        ({"is_error": False, "terminal_reason": "max_turns", "result": "x"}, "max_turns"),
        ({"is_error": False, "terminal_reason": "aborted_streaming", "result": "x"}, "interrupted"),
        ({"is_error": False, "api_error_status": 401, "result": "x"}, "auth_failed"),
        ({"is_error": False, "subtype": "error_during_execution"}, "agent_error"),
        ({"is_error": "false", "result": "x"}, "agent_error"),
        ({"result": "x"}, "agent_error"),
        ({"is_error": True, "result": "Credit balance is too low"}, "rate_limited"),
        (
            {"is_error": True, "subtype": "error_during_execution", "startup_failure_reason": "bypass_root"},
            "refused_to_start",
        ),
    ],
)
def test_a_result_is_a_success_only_if_all_of_it_says_so(result: dict[str, object], reason: str) -> None:
    line = json.dumps({"type": "result", "subtype": "success", **result}).encode()

    end = get_end(parse(ParserName.CLAUDE, line, ProcessEnd(code=0)))

    assert (end.ok, end.reason) == (False, reason)


@pytest.mark.parametrize(
    ("parser", "sample"),
    [("claude", "claude/hello.jsonl"), ("codex", "codex/hello.jsonl"), ("gemini", "gemini/hello.jsonl")],
)
def test_a_reported_success_with_an_error_exit_is_no_success(parser: str, sample: str) -> None:
    end = get_end(parse(ParserName(parser), read_sample(sample), ProcessEnd(code=1, stderr="approval rejected\n")))

    assert (end.ok, end.reason) == (False, FinishReason.EXIT_CODE)
    assert "approval rejected" in end.message


def test_a_result_stands_if_we_end_the_process_that_lingers_after_it() -> None:
    stopped = ProcessEnd(code=143, ended_by=EndedBy.TIMEOUT)

    assert get_end(parse(ParserName.CLAUDE, read_sample("claude/hello.jsonl"), stopped)).ok


def test_the_last_result_counts() -> None:
    hello, limit = read_sample("claude/hello.jsonl"), read_sample("claude/limit.jsonl")

    assert get_end(parse(ParserName.CLAUDE, limit + hello)).ok
    assert get_end(parse(ParserName.CLAUDE, hello + limit, ProcessEnd(code=1))).reason is FinishReason.RATE_LIMITED


def test_a_second_turn_that_is_killed_has_no_result() -> None:
    hello = read_sample("claude/hello.jsonl")
    second_turn = hello.splitlines(keepends=True)[1]

    end = get_end(parse(ParserName.CLAUDE, hello + second_turn, ProcessEnd(code=-9)))

    assert (end.ok, end.reason) == (False, FinishReason.NO_RESULT)
    assert "signal 9" in end.message


def test_an_opencode_run_that_stops_in_the_middle_of_a_step_has_no_result() -> None:
    lines = read_sample("opencode-tools.jsonl").splitlines(keepends=True)

    ends = [get_end(parse(ParserName.OPENCODE, lines[:count])) for count in range(len(lines) + 1)]

    assert [end.ok for end in ends] == [False] * len(lines) + [True]


def test_text_is_judged_by_the_exit_code() -> None:
    assert get_end(parse(ParserName.TEXT, b"hello\n")).answer == "hello"
    failed = get_end(parse(ParserName.TEXT, b"hello\n", ProcessEnd(code=3, stderr="no model\n")))
    assert (failed.ok, failed.reason, failed.message) == (False, FinishReason.AGENT_ERROR, "no model")


def test_the_cost_lines_of_aider_are_added_up_and_kept_out_of_the_answer() -> None:
    events = parse(ParserName.TEXT, read_sample("aider.txt"))

    end = get_end(events)
    assert end.ok
    assert end.usage == TokenUsage(input_tokens=5_100, cache_read_tokens=1_500, output_tokens=410)
    assert end.usd == 0.03
    assert "Tokens:" not in end.answer
    assert "renamed the function" in end.answer


def test_an_error_line_before_the_last_cost_line_is_a_retry_that_worked() -> None:
    recovered = read_sample("aider-refused.txt") + read_sample("aider.txt")

    assert get_end(parse(ParserName.TEXT, recovered)).ok


def test_a_line_that_is_json_is_text_for_a_text_cli() -> None:
    events = parse(ParserName.TEXT, b'{"type":"result","is_error":true}\n')

    assert get_end(events).answer == '{"type":"result","is_error":true}'


def test_deltas_are_joined_and_marked() -> None:
    texts = pick(parse(ParserName.GEMINI, read_sample("gemini-tools.jsonl")), AgentText)

    assert [(text.text, text.is_delta) for text in texts] == [
        ("First I ", False),
        ("look.", True),
        ("All ", False),
        ("done.", True),
    ]


def test_usage_so_far_is_known_while_the_run_goes_on() -> None:
    seen = pick(parse(ParserName.CLAUDE, read_sample("claude/max-turns.jsonl")), UsageSeen)

    assert [each.usage.input_tokens for each in seen] == [25, 50]


def test_lines_that_are_no_json_are_notices() -> None:
    notices = pick(parse(ParserName.CLAUDE, read_sample("claude-denied-line.jsonl")), AgentNotice)

    assert notices == [AgentNotice(text="[SandboxDebug] starting")]


def test_an_end_names_the_model_and_the_own_part_of_the_usage() -> None:
    end = get_end(parse(ParserName.CLAUDE, read_sample("claude-denied-line.jsonl")))

    assert isinstance(end, AgentFinished)
    assert end.model == "claude-sonnet-5"
    assert end.usage == TokenUsage(input_tokens=915, cache_read_tokens=900, output_tokens=87)
    assert end.own_usage == TokenUsage(input_tokens=910, cache_read_tokens=900, output_tokens=80)
