"""Presets as data: what each CLI is told, what it cannot be told, and that no value ever becomes a flag."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.agent_output import NODE_ZONE

from herdbeat.domain.target import AgentSpec, ToolMode, ToolPolicy
from herdbeat.runners.agents.invocation import AgentInvocation, AgentRequest, build_argv, request_from_spec
from herdbeat.runners.agents.parsers import ParserName, open_parser
from herdbeat.runners.agents.presets import (
    CLAUDE,
    CODEX,
    COPILOT,
    CURSOR,
    FAKE,
    GEMINI,
    GOOSE,
    MAX_ARGUMENT_BYTES,
    OPENCODE,
    OPTION_NAMES,
    PRESETS,
    InvalidPreset,
    PermissionMode,
    Preset,
    PromptChannel,
    find_preset,
    parse_preset,
)

STDIO_SERVER = {"command": "uvx", "args": ["jira", "--all"], "env": {"TOKEN": 'a"b\n'}}
EVERYTHING: dict[str, Any] = {
    "model": "sonnet",
    "max_turns": 5,
    "budget_usd": 0.5,
    "system_prompt": "You are terse.",
    "append_system_prompt": "Really.",
    "permission_mode": "plan",
    "tools": ("Bash", "Read"),
    "allowed_tools": ("Bash(git diff *)", "Read"),
    "denied_tools": ("WebFetch",),
    "mcp_servers": {"jira": STDIO_SERVER},
    "plugins": ("./plug", {"type": "local", "path": "./other"}),
    "setting_sources": ("user",),
    "extra_dirs": ("/data",),
}


def invoke(preset: Preset, prompt: str = "Say hello.", **options: Any) -> AgentInvocation:
    return build_argv(preset, AgentRequest(prompt=prompt, scratch_dir="/run/7", **options))


def test_claude_is_told_everything() -> None:
    found = invoke(CLAUDE, **EVERYTHING)

    assert found.argv == (
        "claude",
        "-p",
        "--output-format=stream-json",
        "--verbose",
        "--model=sonnet",
        "--max-turns=5",
        "--max-budget-usd=0.5",
        "--setting-sources=user",
        "--permission-mode=plan",
        "--tools=Bash,Read",
        "--allowedTools=Bash(git diff *)",
        "--allowedTools=Read",
        "--disallowedTools=WebFetch",
        "--system-prompt-file=/run/7/system-prompt.md",
        "--append-system-prompt-file=/run/7/append-system-prompt.md",
        "--add-dir=/data",
        "--plugin-dir=./plug",
        "--plugin-dir=./other",
        "--mcp-config=/run/7/mcp.json",
        "--strict-mcp-config",
    )
    assert found.stdin == b"Say hello."
    assert found.warnings == ()
    files = {file.path: file.text for file in found.files}
    assert files["/run/7/system-prompt.md"] == "You are terse."
    assert json.loads(files["/run/7/mcp.json"]) == {"mcpServers": {"jira": {"type": "stdio", **STDIO_SERVER}}}


def test_a_plain_run_of_every_cli() -> None:
    argvs = {name: " ".join(invoke(preset).argv) for name, preset in PRESETS.items() if preset is not FAKE}

    assert argvs == {
        "claude": "claude -p --output-format=stream-json --verbose --permission-mode=acceptEdits",
        "codex": "codex exec --json --skip-git-repo-check --sandbox=workspace-write -",
        "gemini": "gemini -p  --output-format=stream-json --skip-trust --approval-mode=auto_edit",
        "agy": "agy --output-format=stream-json --print-timeout=168h --print=Say hello.",
        "opencode": "opencode run --format=json",
        "aider": "aider --message-file=/run/7/prompt.md --yes-always --no-stream --no-pretty --no-auto-lint"
        " --no-check-update --no-analytics --no-show-release-notes --no-show-model-warnings",
        "qwen": "qwen -p  --output-format=stream-json --approval-mode=auto-edit",
        "goose": "goose run --instructions=- --output-format=text --quiet --no-session",
        "cursor": "cursor-agent -p --output-format=stream-json --trust --force -- Say hello.",
        "amp": "amp -x --stream-json",
        "copilot": "copilot --output-format=json --no-ask-user --no-color --no-auto-update --allow-tool=write"
        " --prompt=Say hello.",
    }


def test_a_session_is_resumed_where_the_cli_can() -> None:
    argvs = {name: invoke(preset, session_id="0199-a2").argv for name, preset in PRESETS.items() if preset.can_resume}

    assert {name for name, argv in argvs.items() if "0199-a2" in " ".join(argv)} == {
        "claude",
        "codex",
        "gemini",
        "agy",
        "opencode",
        "qwen",
        "cursor",
        "amp",
        "copilot",
        "fake",
    }
    assert argvs["codex"][-3:] == ("resume", "0199-a2", "-")
    assert "--sandbox=workspace-write" in argvs["codex"][: argvs["codex"].index("resume")]


def test_a_cli_that_cannot_resume_starts_afresh_and_says_so() -> None:
    found = invoke(GOOSE, session_id="0199-a2")

    assert found.resumes is False
    assert "goose: it cannot resume a session: every run starts afresh." in found.warnings


@pytest.mark.parametrize("session_id", ["", "-p", "--dangerously-skip-permissions", "a b", "a\nb", "x" * 201, "../a"])
def test_a_session_id_that_is_none_is_not_passed_on(session_id: str) -> None:
    """Session ids come from the output of the CLI, which is untrusted."""
    found = invoke(CODEX, session_id=session_id)

    assert found.resumes is False
    assert "resume" not in found.argv
    assert "codex: the stored session id is not one: the run starts afresh." in found.warnings


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_what_a_cli_cannot_be_told_is_a_warning(preset: Preset) -> None:
    warned = " ".join(invoke(preset, **EVERYTHING).warnings)
    labels = {
        "model": "model",
        "max_turns": "max_turns",
        "budget_usd": "budget.usd_per_run",
        "tools": "tools",
        "allowed_tool": "allowed_tools",
        "denied_tool": "denied_tools",
        "extra_dir": "extra_dirs",
        "plugin_dir": "plugins",
    }

    for option, label in labels.items():
        assert (f"`{label}`" in warned) is (option not in preset.options), label
    assert ("`mcp_servers`" in warned) is (preset.mcp == "none")
    can_take_prompt = {"system_prompt", "append_system_prompt"} & {*preset.options, *preset.option_env}
    assert ("has no option for `system_prompt`" in warned) is not bool(can_take_prompt)


def test_a_warning_says_what_to_do_instead() -> None:
    warnings = invoke(CODEX, max_turns=5).warnings

    assert "codex has no option for `max_turns`. It does not stop by itself: set `timeout`." in warnings


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("mode", PermissionMode)
def test_every_permission_mode_is_mapped_or_warned_about(preset: Preset, mode: PermissionMode) -> None:
    found = invoke(preset, permission_mode=mode)

    mapped = PermissionMode.DEFAULT if mode is PermissionMode.DELEGATE else mode
    assert mapped in preset.permissions or any("no permission mode" in warning for warning in found.warnings)


def test_delegate_becomes_default_with_a_warning() -> None:
    found = invoke(CLAUDE, permission_mode="delegate")

    assert "--permission-mode=default" in found.argv
    assert found.warnings == ("claude: `permission_mode: delegate` no longer exists: `default` is used.",)


def test_only_bypass_opens_everything() -> None:
    dangerous = ("bypassPermissions", "yolo", "dangerous", "--auto", "--force", "--allow-all", "GOOSE_MODE=auto")
    expected_force = {("cursor", "acceptEdits")}  # it has no mode between nothing and all, and a caveat says so

    opened = {
        (name, mode)
        for name, preset in PRESETS.items()
        for mode, flags in preset.permissions.items()
        if any(word in " ".join([*flags.args, *(f"{k}={v}" for k, v in flags.env.items())]) for word in dangerous)
    }

    assert {pair for pair in opened if pair[1] != "bypassPermissions"} == expected_force
    assert {name for name, mode in opened if mode == "bypassPermissions"} == set(PRESETS) - {"aider"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (ToolPolicy(mode=ToolMode.ALLOW_ALL), ["--permission-mode=bypassPermissions"]),
        (
            ToolPolicy(mode=ToolMode.ALLOW_LIST, tools=("Bash(cargo *)", "Read")),
            ["--permission-mode=dontAsk", "--allowedTools=Bash(cargo *)", "--allowedTools=Read"],
        ),
        (
            ToolPolicy(mode=ToolMode.DENY_LIST, tools=("Bash(rm *)",)),
            ["--permission-mode=bypassPermissions", "--disallowedTools=Bash(rm *)"],
        ),
        (
            ToolPolicy(mode=ToolMode.DENY_ALL),
            ["--permission-mode=dontAsk", "--tools=", "--disallowedTools=mcp__*"],
        ),
        (ToolPolicy(mode=ToolMode.REQUIRE_APPROVAL), ["--permission-mode=default"]),
    ],
)
def test_the_tool_policies_of_agentd_reach_claude(policy: ToolPolicy, expected: list[str]) -> None:
    assert list(invoke(CLAUDE, tool_policy=policy).argv[4:]) == expected


def test_a_policy_does_not_open_what_a_chosen_mode_closes() -> None:
    found = invoke(CLAUDE, tool_policy=ToolPolicy(mode=ToolMode.ALLOW_ALL), permission_mode="plan")

    assert "--permission-mode=plan" in found.argv


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_deny_list_opens_nothing_in_a_cli_that_cannot_be_told_it(preset: Preset) -> None:
    found = invoke(preset, tool_policy=ToolPolicy(mode=ToolMode.DENY_LIST, tools=("Bash(rm *)",)))

    opened = preset.permissions[PermissionMode.BYPASS].args
    is_open = bool(opened) and opened[0] in found.argv and preset is not CURSOR
    assert is_open is ("denied_tool" in preset.options)
    assert is_open or any("`denied_tools`" in warning for warning in found.warnings)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_deny_all_never_runs_with_open_doors_and_without_a_word(preset: Preset) -> None:
    found = invoke(preset, tool_policy=ToolPolicy(mode=ToolMode.DENY_ALL))

    assert not any("yolo" in each or "dangerous" in each or each == "--force" for each in found.argv)
    assert preset in (CLAUDE, FAKE) or any("deny_all" in warning for warning in found.warnings)


def test_our_own_server_is_offered_and_allowed_except_under_deny_all() -> None:
    own = {"command": "herdbeat", "args": ["mcp"]}

    offered = invoke(CLAUDE, own_server=own, tool_policy=ToolPolicy(mode=ToolMode.ALLOW_LIST, tools=("Read",)))
    withheld = invoke(CLAUDE, own_server=own, tool_policy=ToolPolicy(mode=ToolMode.DENY_ALL))

    assert "--allowedTools=mcp__herdbeat" in offered.argv
    assert json.loads(offered.files[0].text)["mcpServers"]["herdbeat"]["type"] == "stdio"
    assert withheld.files == ()
    assert "--allow-tool=herdbeat" in invoke(COPILOT, own_server=own).argv
    assert any("own tools" in warning for warning in invoke(GEMINI, own_server=own).warnings)


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        ({"url": "https://x/mcp"}, "http"),
        ({"url": "https://x/mcp", "type": "sse"}, "sse"),
        ({"command": "x"}, "stdio"),
        ({"command": "x", "type": None}, "stdio"),
    ],
)
def test_a_server_always_has_a_type(server: dict[str, object], kind: str) -> None:
    found = invoke(CLAUDE, mcp_servers={"a": server})

    assert json.loads(found.files[0].text)["mcpServers"]["a"]["type"] == kind


def test_a_server_that_cannot_be_reached_is_left_out_with_a_warning() -> None:
    found = invoke(CLAUDE, mcp_servers={"a": {"args": ["x"]}})

    assert found.files == ()
    assert found.warnings == ('claude: the MCP server "a" has neither `command` nor `url` and is left out.',)


def test_servers_of_the_project_stay_where_its_settings_are_read() -> None:
    found = invoke(CLAUDE, mcp_servers={"a": STDIO_SERVER}, setting_sources=("project",))

    assert "--strict-mcp-config" not in found.argv
    assert "--strict-mcp-config" in invoke(CLAUDE, mcp_servers={"a": STDIO_SERVER}, setting_sources=()).argv


def test_codex_gets_servers_and_instructions_as_toml() -> None:
    servers = {
        "jira": STDIO_SERVER,
        "web": {"url": "https://x", "headers": {"Authorization": "Bearer y"}},
        "a.b": STDIO_SERVER,
        "old": {"url": "https://x", "type": "sse"},
    }

    found = invoke(CODEX, mcp_servers=servers, system_prompt='Say "hi"\nand \\ stop \x7f.')

    overrides = [each for flag, each in zip(found.argv, found.argv[1:], strict=False) if flag == "-c"]
    config = tomllib.loads("\n".join(overrides))
    assert config == {
        "developer_instructions": 'Say "hi"\nand \\ stop \x7f.',
        "mcp_servers": {
            "jira": STDIO_SERVER,
            "web": {"url": "https://x", "http_headers": {"Authorization": "Bearer y"}},
        },
    }
    assert sum("is left out" in warning for warning in found.warnings) == 2
    assert any("list of processes" in warning for warning in found.warnings)


def test_opencode_gets_servers_and_instructions_in_its_config_variable() -> None:
    servers = {"jira": STDIO_SERVER, "web": {"url": "https://x", "headers": {"A": "b"}}}

    found = invoke(OPENCODE, mcp_servers=servers, system_prompt="Be terse.", permission_mode="plan")

    assert json.loads(found.env["OPENCODE_CONFIG_CONTENT"]) == {
        "mcp": {
            "jira": {
                "type": "local",
                "command": ["uvx", "jira", "--all"],
                "enabled": True,
                "environment": STDIO_SERVER["env"],
            },
            "web": {"type": "remote", "url": "https://x", "enabled": True, "headers": {"A": "b"}},
        },
        "instructions": ["/run/7/system-prompt.md"],
    }
    assert json.loads(found.env["OPENCODE_PERMISSION"])["edit"] == "deny"
    assert found.files[0].text == "Be terse."


def test_gemini_gets_its_system_prompt_by_a_variable() -> None:
    found = invoke(GEMINI, system_prompt="Be terse.")

    assert found.env["GEMINI_SYSTEM_MD"] == "/run/7/system-prompt.md"


def test_a_prompt_that_is_too_long_for_its_way_is_a_warning() -> None:
    prompt = "x" * (MAX_ARGUMENT_BYTES + 1)

    assert any("131072 bytes" in warning for warning in invoke(CURSOR, prompt).warnings)
    assert not any("bytes" in warning for warning in invoke(CLAUDE, prompt).warnings)
    assert any("bytes" in warning for warning in invoke(CLAUDE, "x" * 10_000_001).warnings)


HOSTILE = st.one_of(
    st.sampled_from(
        [
            "--dangerously-skip-permissions",
            "--permission-mode=bypassPermissions",
            "-p",
            "--",
            "-",
            "$(touch /tmp/x)",
            "`id`",
            "a'b\"c",
            "a\nb --yolo",
            "{prompt}",
            "{options}",
            "{session}",
            "{model}",
            "\0",
            "",
            " ",
            "\ud800",
        ]
    ),
    st.text(max_size=30),
)


@given(
    preset=st.sampled_from(list(PRESETS.values())),
    prompt=HOSTILE,
    model=HOSTILE.filter(bool),
    system=HOSTILE,
    rules=st.tuples(HOSTILE, HOSTILE),
    folder=HOSTILE,
)
@settings(max_examples=400, deadline=None)
def test_no_value_becomes_a_flag(
    preset: Preset, prompt: str, model: str, system: str, rules: tuple[str, str], folder: str
) -> None:
    def build(prompt: str, model: str, system: str, rules: tuple[str, str], folder: str) -> AgentInvocation:
        return invoke(
            preset,
            prompt,
            model=model,
            system_prompt=system,
            allowed_tools=rules[:1],
            denied_tools=rules[1:],
            extra_dirs=(folder,),
        )

    tame, hostile = build("P", "M", "S", ("A", "D"), "F"), build(prompt, model, system, rules, folder)

    end = -1 if preset.argv[-1] == "{prompt}" else None  # after a `--`, where anything is a value
    assert [shape(each) for each in hostile.argv[:end]] == [shape(each) for each in tame.argv[:end]]
    assert end is None or hostile.argv[-2] == "--"
    assert all("\0" not in each for each in (*hostile.argv, *hostile.env.values()))
    assert [each.encode() for each in hostile.argv]
    if preset.prompt is PromptChannel.STDIN:
        assert hostile.stdin == prompt.encode("utf-8", "replace")
    elif preset.prompt is PromptChannel.ARGUMENT:
        assert hostile.argv[-1].endswith(prompt.replace("\0", "\ufffd").encode("utf-8", "replace").decode())
    else:
        assert prompt in [file.text for file in hostile.files]


def shape(argument: str) -> str:
    """Return the flag of an argument; values in a place of their own have none."""
    return argument.partition("=")[0] if argument.startswith("--") and "=" in argument else argument[:0]


def test_the_request_of_a_target_takes_the_policy_of_its_schedule() -> None:
    spec = AgentSpec(
        runtime="claude",
        working_directory=".",
        model="sonnet",
        max_turns=3,
        denied_tools=("WebFetch",),
        tool_policy=ToolPolicy(mode=ToolMode.ALLOW_ALL),
        mcp_servers={"a": {"url": "https://x"}},
    )

    plain = request_from_spec(spec, "go", "/run/7")
    narrowed = request_from_spec(spec, "go", "/run/7", tool_policy=ToolPolicy(mode=ToolMode.DENY_ALL), budget_usd=1.0)

    assert (plain.model, plain.max_turns, plain.tool_policy) == ("sonnet", 3, spec.tool_policy)
    assert "--max-budget-usd=1" in build_argv(CLAUDE, narrowed).argv
    assert "--tools=" in build_argv(CLAUDE, narrowed).argv


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_a_preset_is_consistent(preset: Preset) -> None:
    assert set(preset.options) | set(preset.option_env) <= OPTION_NAMES
    assert "{options}" in preset.argv
    assert PermissionMode.BYPASS in preset.permissions
    assert set(preset.advice) <= OPTION_NAMES
    assert preset.has_terminal_event is (preset.parser not in (ParserName.TEXT, ParserName.OPENCODE))
    assert preset.can_resume is any("{session}" in each for each in preset.resume_argv)
    open_parser(preset.parser, NODE_ZONE, error_line=preset.error_line)


def test_the_words_of_herdctl_mean_claude() -> None:
    assert [find_preset(word, {}) for word in ("sdk", "cli", "claude", "nothing")] == [CLAUDE, CLAUDE, CLAUDE, None]


def test_a_user_defines_a_preset() -> None:
    kimi = parse_preset(
        "kimi",
        {
            "program": "kimi",
            "argv": ["--print", "{options}", "--prompt={prompt}"],
            "prompt": "arg",
            "options": {"model": ["--model", "{model}"]},
            "permissions": {"bypassPermissions": ["--yes"]},
            "login_variables": ["KIMI_API_KEY"],
        },
    )

    found = invoke(kimi, "--help", model="k2", permission_mode="bypassPermissions")

    assert find_preset("kimi", {"kimi": kimi}) is kimi
    assert (kimi.parser, kimi.has_terminal_event) == (ParserName.TEXT, False)
    assert found.argv == ("kimi", "--print", "--model", "k2", "--yes", "--prompt=--help")


def test_a_user_changes_a_built_in_preset() -> None:
    mine = parse_preset("mine", {"like": "claude", "program": "/opt/claude", "env": {"ANTHROPIC_BASE_URL": "http://x"}})

    found = invoke(mine, model="opus")

    assert found.argv[0] == "/opt/claude"
    assert "--model=opus" in found.argv
    assert (mine.name, mine.parser, found.env) == ("mine", ParserName.CLAUDE, {"ANTHROPIC_BASE_URL": "http://x"})


def test_every_fault_of_a_preset_is_told_at_once() -> None:
    with pytest.raises(InvalidPreset) as caught:
        parse_preset(
            "bad",
            {
                "like": "nobody",
                "argv": ["--print"],
                "prompt": "arg",
                "parser": "xml",
                "options": {"modell": ["x"], "model": "--model"},
                "permissions": {"yolo": []},
                "error_line": "(",
                "reports_usd": "yes",
                "colour": "red",
            },
        )

    told = " ".join(caught.value.problems)
    for words in (
        'no preset "nobody"',
        "`program` is missing",
        "has no {prompt}",
        "`parser` is one of",
        "`options.modell`",
        "`options.model`",
        "`permissions.yolo`",
        "`error_line` is not",
        "`reports_usd` is true or false",
        "no key `colour`",
    ):
        assert words in told
