"""What the keys of an agent become: its runtime, its session, and warnings about what its CLI cannot be told."""

from datetime import timedelta

import pytest
from tests.support.config_folder import ConfigFolder

from herdbeat.domain.fleet import Fleet
from herdbeat.domain.target import AgentSpec, OnDenied
from herdbeat.error_codes import Code
from herdbeat.runners.agents.invocation import AgentInvocation, build_argv, request_from_spec
from herdbeat.runners.agents.parsers import ParserName
from herdbeat.runners.agents.presets import PRESETS

BASE = "name: a, budget: { runs_per_day: 1 }"


def read_fleet(folder: ConfigFolder, keys: str, top: str = "") -> Fleet:
    result = folder.read(f"{top}\nagents: [{{ {BASE}, {keys} }}]")
    assert result.problems == ()
    assert result.fleet is not None
    return result.fleet


def read_agent(folder: ConfigFolder, keys: str, top: str = "") -> AgentSpec:
    spec = read_fleet(folder, f"every: 5m, {keys}", top).targets[0].spec
    assert isinstance(spec, AgentSpec)
    return spec


def test_an_agent_runs_claude_unless_it_says_otherwise(folder: ConfigFolder) -> None:
    assert read_agent(folder, "model: opus").runtime == "claude"


def test_the_keys_of_an_agent_reach_its_spec(folder: ConfigFolder) -> None:
    keys = "program: ./bin/claude, account: team, on_denied: fail, extra_dirs: [../data, /srv]"

    spec = read_agent(folder, keys)

    assert (spec.program, spec.account, spec.on_denied) == ("bin/claude", "team", OnDenied.FAIL)
    assert spec.extra_dirs == ("../data", "/srv")


@pytest.mark.parametrize(
    ("agent", "schedule", "resumes", "timeout"),
    [
        ("model: x", "", False, 24),
        ("session: resume", "", True, 24),
        ("session: { mode: resume, timeout: 2h }", "", True, 2),
        ("session: { timeout: 2h }", "session: resume", True, 2),
        ("session: resume", "session: fresh", False, 24),
        ("session: resume", "session: { mode: resume, timeout: 3h }", True, 3),
        ("model: x", "resume_session: true", True, 24),
    ],
)
def test_a_session_is_a_word_or_a_block_on_the_agent_or_the_schedule(
    folder: ConfigFolder, agent: str, schedule: str, *, resumes: bool, timeout: int
) -> None:
    (found,) = read_fleet(folder, f"{agent}, schedules: {{ s: {{ every: 5m, {schedule} }} }}").schedules

    assert (found.resume_session, found.session_timeout) == (resumes, timedelta(hours=timeout))


def test_a_schedule_may_have_its_own_account_and_tool_policy(folder: ConfigFolder) -> None:
    (found,) = read_fleet(folder, "account: x, schedules: { s: { every: 5m, account: y, on_denied: fail } }").schedules

    assert (found.account, found.on_denied) == ("y", OnDenied.FAIL)


def test_a_session_that_a_cli_cannot_resume_is_a_warning(folder: ConfigFolder) -> None:
    result = folder.read(f"agents: [{{ {BASE}, runtime: aider, every: 5m, session: resume }}]")

    assert [each.message for each in result.problems] == ["aider: it cannot resume a session: every run starts afresh."]


def test_a_tool_policy_of_a_schedule_that_a_cli_cannot_be_told_is_a_warning(folder: ConfigFolder) -> None:
    schedule = "schedules: { s: { every: 5m, tool_policy: { mode: deny_list, tools: [WebFetch] } } }"

    result = folder.read(f"agents: [{{ {BASE}, runtime: codex, permission_mode: plan, {schedule} }}]")

    (problem,) = result.problems
    assert "codex has no option for `denied_tools`." in problem.message
    assert problem.where is not None
    assert problem.where.path == "agents.a.schedules.s"


def test_a_runtime_of_the_file_is_stored_with_its_agents(folder: ConfigFolder) -> None:
    spec = read_agent(folder, "runtime: house", "runtimes: { house: { program: house-agent, argv: [--run] } }")

    assert spec.preset == {"program": "house-agent", "argv": ["--run"]}


@pytest.mark.parametrize("parser", ParserName)
def test_a_runtime_of_the_file_may_name_every_parser(folder: ConfigFolder, parser: ParserName) -> None:
    runtime = f"{{ program: house-agent, argv: [--run], parser: {parser}, notice_line: '^House' }}"

    spec = read_agent(folder, "runtime: house", f"runtimes: {{ house: {runtime} }}")

    assert spec.preset["parser"] == parser


@pytest.mark.parametrize(
    ("top", "keys", "message"),
    [
        ("", "runtime: cluade", 'runtime cannot be "cluade"; did you mean "claude"?'),
        (
            "runtimes: { house: { argv: [x] } }",
            "runtime: house",
            "`program` is missing: the file to start, or a name on PATH.",
        ),
        (
            "runtimes: { house: { program: x, argv: [y], prompt: arg } }",
            "runtime: house",
            "`argv` has no {prompt}: the program would not get the prompt. Add it, or set `prompt: stdin`.",
        ),
        (
            "runtimes: { house: { program: x, argv: [y], error_line: '(' } }",
            "runtime: house",
            "`error_line` is not a regular expression: missing ), unterminated subpattern at position 0.",
        ),
    ],
)
def test_a_runtime_that_cannot_work_is_refused(folder: ConfigFolder, top: str, keys: str, message: str) -> None:
    result = folder.read(f"{top}\nagents: [{{ {BASE}, every: 5m, {keys} }}]")

    assert [problem.message for problem in result.errors] == [message]


@pytest.mark.parametrize(
    ("keys", "message", "line_key"),
    [
        (
            "runtime: codex, permission_mode: plan, max_turns: 5",
            "codex has no option for `max_turns`. It does not stop by itself: set `timeout`.",
            "max_turns",
        ),
        (
            "permission_mode: delegate",
            "claude: `permission_mode: delegate` no longer exists: `default` is used.",
            "permission_mode",
        ),
        (
            "runtime: aider, allowed_tools: [Bash]",
            "aider has no option for `allowed_tools`.",
            "allowed_tools",
        ),
        (
            "runtime: gemini, setting_sources: [user]",
            "gemini has no option for `setting_sources`.",
            "setting_sources",
        ),
        (
            "runtime: qwen, allow_create: true",
            "qwen: `allow_create` has no effect: it cannot be offered herdbeat's own tools.",
            "allow_create",
        ),
        (
            "runtime: aider, on_denied: fail",
            "aider: `on_denied` has no effect: it does not report which tools were denied.",
            "on_denied",
        ),
    ],
)
def test_what_a_cli_cannot_be_told_is_a_warning_at_its_key(
    folder: ConfigFolder, keys: str, message: str, line_key: str
) -> None:
    result = folder.read(f"agents: [{{ {BASE}, every: 5m, {keys} }}]")

    warnings = [each for each in result.problems if each.code is Code.NOT_SERVED]
    assert [(each.message, str(each.where.path).rpartition(".")[2]) for each in warnings if each.where] == [
        (message, line_key)
    ]


AGENT_KEYS = {
    "model": "model: m",
    "max_turns": "max_turns: 5",
    "system_prompt": "system_prompt: Be terse.",
    "append_system_prompt": "append_system_prompt: Really.",
    "tools": "tools: [Bash]",
    "allowed_tools": "allowed_tools: [Bash]",
    "denied_tools": "denied_tools: [WebFetch]",
    "tool_policy": "tool_policy: { mode: deny_list, tools: [WebFetch] }",
    "mcp_servers": "mcp_servers: { jira: { command: uvx } }",
    "plugins": "plugins: [./plug]",
    "extra_dirs": "extra_dirs: [/data]",
    "setting_sources": "setting_sources: [user]",
    "usd_per_run": "budget: { runs_per_day: 1, usd_per_run: 0.5 }",
    "session": "session: resume",
}


@pytest.mark.parametrize("runtime", [name for name in PRESETS if name != "fake"])
def test_every_key_of_an_agent_reaches_its_cli_or_is_a_warning(folder: ConfigFolder, runtime: str) -> None:
    def read(keys: str) -> tuple[AgentInvocation, set[str]]:
        base = "name: a" if "budget" in keys else BASE
        result = folder.read(f"agents: [{{ {base}, runtime: {runtime}, every: 5m, {keys} }}]")
        assert result.errors == ()
        assert result.fleet is not None
        (target,), (schedule,) = result.fleet.targets, result.fleet.schedules
        assert isinstance(target.spec, AgentSpec)
        request = request_from_spec(
            target.spec,
            "Go.",
            "/run/7",
            budget_usd=target.budget.usd_per_run if target.budget else None,
            session_id="s-1" if schedule.resume_session else None,
        )
        return build_argv(PRESETS[runtime], request), {each.message for each in result.problems}

    plain, known = read("description: x")
    silent = []
    for key, text in AGENT_KEYS.items():
        told, warned = read(text)
        is_told = (told.argv, told.env, told.files) != (plain.argv, plain.env, plain.files)
        if not is_told and not warned - known:
            silent.append(key)

    assert silent == []


def test_a_limit_of_a_schedule_that_its_cli_cannot_keep_is_a_warning_there(folder: ConfigFolder) -> None:
    schedule = "schedules: { s: { every: 5m, budget: { usd_per_run: 0.5 }, on_denied: fail } }"

    result = folder.read(f"agents: [{{ {BASE}, runtime: codex, permission_mode: plan, {schedule} }}]")

    assert [(each.message, each.where.path) for each in result.problems if each.where] == [
        (
            "codex has no option for `budget.usd_per_run`. A `budget` per day still stops the next run.",
            "agents.a.schedules.s",
        ),
        (
            "codex: `on_denied` has no effect: it does not report which tools were denied.",
            "agents.a.schedules.s",
        ),
    ]
