"""Agent CLIs as data: how each is called, which options it has, and how its output is read.

A new CLI is a new entry, in `PRESETS` or in the fleet file of a user. Every value goes into `--flag=value` or into a
place where the CLI reads no flags, so that a model called `--yolo` stays a name.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType

from herdbeat.domain.target import AgentSpec
from herdbeat.runners.agents.parsers import ParserName


class PromptChannel(StrEnum):
    """How the prompt reaches the CLI. Standard input is best: no length limit, and not in the list of processes."""

    STDIN = "stdin"
    ARGUMENT = "arg"
    FILE = "file"


class PermissionMode(StrEnum):
    """What an agent may do unasked: the words of Claude Code, which herdctl uses too."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    DELEGATE = "delegate"  # no longer exists in Claude Code; DEFAULT is used, with a warning


class McpFormat(StrEnum):
    """How the MCP servers are passed to a CLI."""

    NONE = "none"
    JSON_FILE = "json_file"  # {"mcpServers": {…}} in a file that the option `mcp_config` names
    CODEX_OVERRIDES = "codex_overrides"  # -c mcp_servers.NAME.command="…"
    OPENCODE_CONFIG = "opencode_config"  # {"mcp": {…}} in OPENCODE_CONFIG_CONTENT


class SystemPromptEffect(StrEnum):
    """Whether our system prompt replaces the CLI's own, or is appended to it."""

    REPLACES = "replaces"
    ADDS = "adds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionFlags:
    """How one permission mode is passed to a CLI: arguments, environment variables, or both.

    `caveat` says what is different from Claude's mode of that name; it becomes a warning.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One CLI.

    `argv` and `resume_argv` are the arguments after the program; the element `{options}` is replaced by the options
    that a run needs, `{prompt}`, `{prompt_file}` and `{session}` by their values. Each entry of `options` is a group of
    arguments that is used if its value is set, once per value for lists; `option_env` has variables to set instead.
    A setting without an entry has no option of the CLI, and causes a warning; `advice` says what to do instead.
    """

    name: str
    program: str
    argv: tuple[str, ...]
    parser: ParserName
    prompt: PromptChannel = PromptChannel.STDIN
    resume_argv: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    option_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    permissions: Mapping[PermissionMode, PermissionFlags] = field(default_factory=dict)
    system_prompt_effect: SystemPromptEffect = SystemPromptEffect.REPLACES
    mcp: McpFormat = McpFormat.NONE
    server_rule: str = "mcp__{server}"  # the rule that allows every tool of a server
    env: Mapping[str, str] = field(default_factory=dict)
    unset_env: tuple[str, ...] = ()
    login_variables: tuple[str, ...] = ()  # of the node; every run of this CLI gets them
    inherited_env: tuple[str, ...] = ()  # the same for its folders and the address of its service
    advice: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    login_hint: str = ""
    status_argv: tuple[str, ...] = ()  # arguments with which it exits with 0 if it is logged in
    error_line: str = ""
    notice_line: str = ""
    max_prompt_bytes: int | None = None
    usage_is_cumulative: bool = False  # totals continue over a resumed session: charge the difference
    has_terminal_event: bool = True  # False: only the exit code says that it is over
    reports_usd: bool = False
    reports_tokens: bool = True
    auto_denies: bool = True  # a tool that would need a person's consent is denied, never waited for

    @property
    def can_resume(self) -> bool:
        return bool(self.resume_argv)

    @property
    def reports_denials(self) -> bool:
        """Plain text does not say which tools were denied. Codex denies none: its sandbox lets a command fail."""
        return self.parser not in (ParserName.TEXT, ParserName.CODEX)

    @property
    def has_own_tools(self) -> bool:
        """Whether our MCP server can be passed to it."""
        return self.mcp is not McpFormat.NONE


OPTION_NAMES = frozenset(
    {
        "model",
        "max_turns",
        "budget_usd",
        "system_prompt",
        "append_system_prompt",
        "tools",
        "allowed_tool",
        "denied_tool",
        "extra_dir",
        "mcp_config",
        "mcp_strict",
        "plugin_dir",
        "setting_sources",
        "session_id",
    }
)
"""The groups that `Preset.options` may have. Those in the singular are repeated for every value of a list."""

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Linux starts no program with a longer argument."""

_ASK_WRITES = '{"edit":"ask","bash":"ask","webfetch":"ask"}'
_NO_HARD_STOP = "It does not stop by itself: set `timeout`."
_NO_BUDGET_PER_RUN = "A `budget` per day still stops the next run."
_AGENTS_FILE = "Write it into AGENTS.md in the working directory."
_SANDBOX_ONLY = "It has a sandbox instead of tool rules: choose `permission_mode`."


def _flags(*args: str, caveat: str = "", **env: str) -> PermissionFlags:
    return PermissionFlags(args=args, env=env, caveat=caveat)


CLAUDE = Preset(
    name="claude",
    program="claude",
    argv=("-p", "--output-format=stream-json", "--verbose", "{options}"),
    resume_argv=("-p", "--output-format=stream-json", "--verbose", "--resume={session}", "{options}"),
    parser=ParserName.CLAUDE,
    options={
        "model": ("--model={model}",),
        "max_turns": ("--max-turns={max_turns}",),
        "budget_usd": ("--max-budget-usd={budget_usd}",),
        "system_prompt": ("--system-prompt-file={system_prompt_file}",),
        "append_system_prompt": ("--append-system-prompt-file={append_system_prompt_file}",),
        "tools": ("--tools={tools}",),
        # With `=`, and one rule each: as separate words these options swallow what follows them.
        "allowed_tool": ("--allowedTools={allowed_tool}",),
        "denied_tool": ("--disallowedTools={denied_tool}",),
        "extra_dir": ("--add-dir={extra_dir}",),
        "mcp_config": ("--mcp-config={mcp_file}",),
        "mcp_strict": ("--strict-mcp-config",),
        "plugin_dir": ("--plugin-dir={plugin_dir}",),
        "setting_sources": ("--setting-sources={setting_sources}",),
        "session_id": ("--session-id={session_id}",),
    },
    permissions={
        mode: _flags(f"--permission-mode={mode}")
        for mode in (
            PermissionMode.DEFAULT,
            PermissionMode.ACCEPT_EDITS,
            PermissionMode.BYPASS,
            PermissionMode.PLAN,
            PermissionMode.DONT_ASK,
        )
    },
    mcp=McpFormat.JSON_FILE,
    # Its own scheduler would run prompts that no ledger knows, and a node must not be updated in the middle of a run.
    env={
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_CRON": "1",
        "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    },
    unset_env=("CLAUDECODE",),  # else it believes to run inside another Claude Code
    login_variables=("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
    inherited_env=("CLAUDE_CONFIG_DIR", "ANTHROPIC_BASE_URL"),
    install_hint="Install it: npm install -g @anthropic-ai/claude-code.",
    login_hint="Log in: run claude once and type /login, or run claude setup-token.",
    status_argv=("auth", "status"),
    max_prompt_bytes=10_000_000,
    usage_is_cumulative=True,
    reports_usd=True,
)

CODEX = Preset(
    name="codex",
    program="codex",
    # Sandbox and folders are no global options: they have to stand before `resume`.
    argv=("exec", "--json", "--skip-git-repo-check", "{options}", "-"),
    resume_argv=("exec", "--json", "--skip-git-repo-check", "{options}", "resume", "{session}", "-"),
    parser=ParserName.CODEX,
    options={
        "model": ("--model={model}",),
        "system_prompt": ("-c", "developer_instructions={system_prompt_quoted}"),
        "append_system_prompt": ("-c", "developer_instructions={append_system_prompt_quoted}"),
        "extra_dir": ("--add-dir={extra_dir}",),
    },
    system_prompt_effect=SystemPromptEffect.ADDS,
    permissions={
        PermissionMode.DEFAULT: _flags("--sandbox=read-only"),
        PermissionMode.ACCEPT_EDITS: _flags(
            "--sandbox=workspace-write", caveat="it may also run commands, inside the sandbox of the working directory"
        ),
        PermissionMode.BYPASS: _flags("--dangerously-bypass-approvals-and-sandbox"),
        PermissionMode.PLAN: _flags("--sandbox=read-only"),
        PermissionMode.DONT_ASK: _flags("--sandbox=read-only"),
    },
    mcp=McpFormat.CODEX_OVERRIDES,
    login_variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
    inherited_env=("CODEX_HOME",),
    install_hint="Install it: npm install -g @openai/codex.",
    login_hint="Log in: codex login.",
    status_argv=("login", "status"),
    advice={
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "tools": _SANDBOX_ONLY,
        "allowed_tool": _SANDBOX_ONLY,
        "denied_tool": _SANDBOX_ONLY,
    },
    usage_is_cumulative=True,
)

GEMINI = Preset(
    name="gemini",
    program="gemini",
    argv=("-p", "", "--output-format=stream-json", "--skip-trust", "{options}"),
    resume_argv=("-p", "", "--output-format=stream-json", "--skip-trust", "--resume={session}", "{options}"),
    parser=ParserName.GEMINI,
    options={
        "model": ("--model={model}",),
        "allowed_tool": ("--allowed-tools={allowed_tool}",),
        "extra_dir": ("--include-directories={extra_dir}",),
    },
    option_env={"system_prompt": {"GEMINI_SYSTEM_MD": "{system_prompt_file}"}},
    permissions={
        PermissionMode.DEFAULT: _flags("--approval-mode=default"),
        PermissionMode.ACCEPT_EDITS: _flags("--approval-mode=auto_edit"),
        PermissionMode.BYPASS: _flags("--approval-mode=yolo"),
        PermissionMode.PLAN: _flags("--approval-mode=plan"),
        PermissionMode.DONT_ASK: _flags("--approval-mode=default"),
    },
    login_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    inherited_env=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"),
    install_hint="Install it: npm install -g @google/gemini-cli.",
    login_hint="Log in: run gemini once.",
    advice={
        "max_turns": "Set `maxSessionTurns` in .gemini/settings.json.",
        "budget_usd": _NO_BUDGET_PER_RUN,
        "append_system_prompt": "Write it into GEMINI.md in the working directory.",
        "tools": "Set `coreTools` in .gemini/settings.json.",
        "denied_tool": "Set `excludeTools` in .gemini/settings.json.",
        "mcp_config": "Write the servers into .gemini/settings.json.",
    },
)

AGY = Preset(
    name="agy",
    program="agy",
    # Its own limit is five minutes. Ours decides.
    argv=("--output-format=stream-json", "--print-timeout=168h", "{options}", "--print={prompt}"),
    resume_argv=(
        "--output-format=stream-json",
        "--print-timeout=168h",
        "--conversation={session}",
        "{options}",
        "--print={prompt}",
    ),
    parser=ParserName.GEMINI,
    prompt=PromptChannel.ARGUMENT,
    options={"model": ("--model={model}",), "extra_dir": ("--add-dir={extra_dir}",)},
    permissions={
        PermissionMode.DEFAULT: _flags(),
        PermissionMode.ACCEPT_EDITS: _flags(caveat="edits that need consent are denied: it has no such mode"),
        PermissionMode.BYPASS: _flags("--dangerously-skip-permissions"),
        PermissionMode.DONT_ASK: _flags(),
    },
    advice={"max_turns": _NO_HARD_STOP, "budget_usd": _NO_BUDGET_PER_RUN, "system_prompt": _AGENTS_FILE},
)

OPENCODE = Preset(
    name="opencode",
    program="opencode",
    argv=("run", "--format=json", "{options}"),
    resume_argv=("run", "--format=json", "--session={session}", "{options}"),
    parser=ParserName.OPENCODE,
    options={"model": ("--model={model}",), "system_prompt": ()},  # in OPENCODE_CONFIG_CONTENT, beside the servers
    system_prompt_effect=SystemPromptEffect.ADDS,
    permissions={
        PermissionMode.DEFAULT: _flags(OPENCODE_PERMISSION=_ASK_WRITES),
        PermissionMode.ACCEPT_EDITS: _flags(OPENCODE_PERMISSION='{"edit":"allow","bash":"ask","webfetch":"ask"}'),
        PermissionMode.BYPASS: _flags("--auto"),
        PermissionMode.PLAN: _flags(OPENCODE_PERMISSION='{"edit":"deny","bash":"deny"}'),
        PermissionMode.DONT_ASK: _flags(OPENCODE_PERMISSION=_ASK_WRITES),
    },
    mcp=McpFormat.OPENCODE_CONFIG,
    env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    install_hint="Install it: npm install -g opencode-ai.",
    login_hint="Log in: opencode auth login.",
    login_variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY"),
    advice={
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "allowed_tool": "Set `permission` in opencode.json.",
        "denied_tool": "Set `permission` in opencode.json.",
    },
    has_terminal_event=False,
    reports_usd=True,
)

AIDER = Preset(
    name="aider",
    program="aider",
    argv=(
        "--message-file={prompt_file}",
        "--yes-always",
        "--no-stream",
        "--no-pretty",
        "--no-auto-lint",
        "--no-check-update",
        # It would say yes to its own questions: whether to report usage, and to open pages in a browser.
        "--no-analytics",
        "--no-show-release-notes",
        "--no-show-model-warnings",
        "{options}",
    ),
    parser=ParserName.TEXT,
    prompt=PromptChannel.FILE,
    options={"model": ("--model={model}",), "append_system_prompt": ("--read={append_system_prompt_file}",)},
    permissions={
        PermissionMode.ACCEPT_EDITS: _flags(),
        PermissionMode.BYPASS: _flags(caveat="it never runs shell commands by itself"),
        PermissionMode.PLAN: _flags("--chat-mode=ask"),
    },
    login_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
    inherited_env=("OPENAI_API_BASE",),
    # It exits with 0 after the API has refused it.
    error_line=r"^litellm\.\w+|^The API provider |^Unable to (?:list|connect)|^Model .* not found",
    # Narrow, because an answer may well have a line that begins with "Model: ".
    notice_line=r"^Aider v\d+\.|^(?:Main m|M)odel: \S+ with [\w-]+ edit format|^(?:Weak|Editor) model: \S+$"
    r"|^Git repo: \S+ with [\d,]+ files|^Repo-map: (?:using \d+ tokens|disabled)|^https://aider\.chat/\S+$"
    r"|^Added \.aider\* to |^Update git (?:name|email) with: |^You can skip this check with --|^HTTPSConnectionPool\(",
    advice={
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "system_prompt": "Use a conventions file, with `read:` in .aider.conf.yml.",
    },
    has_terminal_event=False,
    reports_usd=True,
)

QWEN = Preset(
    name="qwen",
    program="qwen",
    argv=("-p", "", "--output-format=stream-json", "{options}"),
    resume_argv=("-p", "", "--output-format=stream-json", "--resume={session}", "{options}"),
    parser=ParserName.CLAUDE,
    options={
        "model": ("--model={model}",),
        "max_turns": ("--max-session-turns={max_turns}",),
        "system_prompt": ("--system-prompt={system_prompt}",),
        "append_system_prompt": ("--append-system-prompt={append_system_prompt}",),
        "allowed_tool": ("--allowed-tools={allowed_tool}",),
        "denied_tool": ("--exclude-tools={denied_tool}",),
        "extra_dir": ("--include-directories={extra_dir}",),
        "session_id": ("--session-id={session_id}",),
    },
    permissions={
        PermissionMode.DEFAULT: _flags("--approval-mode=default"),
        PermissionMode.ACCEPT_EDITS: _flags("--approval-mode=auto-edit"),
        PermissionMode.BYPASS: _flags("--approval-mode=yolo"),
        PermissionMode.PLAN: _flags("--approval-mode=plan"),
        PermissionMode.DONT_ASK: _flags("--approval-mode=default"),
    },
    login_variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
    inherited_env=("OPENAI_BASE_URL", "OPENAI_MODEL"),
    install_hint="Install it: npm install -g @qwen-code/qwen-code.",
    login_hint="Log in: run qwen once.",
    advice={"budget_usd": _NO_BUDGET_PER_RUN, "mcp_config": "Write the servers into .qwen/settings.json."},
    usage_is_cumulative=True,
)

GOOSE = Preset(
    name="goose",
    program="goose",
    argv=("run", "--instructions=-", "--output-format=text", "--quiet", "--no-session", "{options}"),
    parser=ParserName.TEXT,
    options={
        "model": ("--model={model}",),
        "max_turns": ("--max-turns={max_turns}",),
        "append_system_prompt": ("--system={append_system_prompt}",),
    },
    permissions={
        PermissionMode.DEFAULT: _flags(GOOSE_MODE="smart_approve"),
        PermissionMode.ACCEPT_EDITS: _flags(GOOSE_MODE="smart_approve", caveat="edits need consent in this mode too"),
        PermissionMode.BYPASS: _flags(GOOSE_MODE="auto"),
        PermissionMode.PLAN: _flags(GOOSE_MODE="chat"),
        PermissionMode.DONT_ASK: _flags(GOOSE_MODE="smart_approve"),
    },
    login_variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    advice={
        "budget_usd": _NO_BUDGET_PER_RUN,
        "system_prompt": "Use a recipe, or .goosehints in the working directory.",
        "mcp_config": "Add them as extensions with `goose configure`.",
    },
    has_terminal_event=False,
    reports_tokens=False,
    auto_denies=False,
)

CURSOR = Preset(
    name="cursor",
    program="cursor-agent",
    argv=("-p", "--output-format=stream-json", "--trust", "{options}", "--", "{prompt}"),
    resume_argv=("-p", "--output-format=stream-json", "--trust", "--resume={session}", "{options}", "--", "{prompt}"),
    parser=ParserName.CLAUDE,
    prompt=PromptChannel.ARGUMENT,
    options={"model": ("--model={model}",)},
    permissions={
        PermissionMode.DEFAULT: _flags(),
        PermissionMode.ACCEPT_EDITS: _flags("--force", caveat="it may also run commands"),
        PermissionMode.BYPASS: _flags("--force"),
        PermissionMode.PLAN: _flags("--mode=plan"),
        PermissionMode.DONT_ASK: _flags(),
    },
    login_variables=("CURSOR_API_KEY",),
    login_hint="Log in: cursor-agent login.",
    advice={
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "system_prompt": _AGENTS_FILE,
        "allowed_tool": "Set `permissions` in .cursor/cli.json.",
        "denied_tool": "Set `permissions` in .cursor/cli.json.",
        "mcp_config": "Write the servers into .cursor/mcp.json.",
    },
    reports_tokens=False,
)

AMP = Preset(
    name="amp",
    program="amp",
    argv=("-x", "--stream-json", "{options}"),
    resume_argv=("threads", "continue", "{session}", "-x", "--stream-json", "{options}"),
    parser=ParserName.CLAUDE,
    permissions={
        PermissionMode.DEFAULT: _flags(),
        PermissionMode.ACCEPT_EDITS: _flags(caveat="which commands need consent is decided by `amp.permissions`"),
        PermissionMode.BYPASS: _flags("--dangerously-allow-all"),
        PermissionMode.DONT_ASK: _flags(),
    },
    login_variables=("AMP_API_KEY",),
    inherited_env=("AMP_URL",),
    install_hint="Install it: npm install -g @ampcode/cli.",
    login_hint="Log in: amp login.",
    advice={
        "model": "Amp chooses the model itself.",
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "system_prompt": _AGENTS_FILE,
        "allowed_tool": "Set `amp.permissions` in its settings.",
        "denied_tool": "Set `amp.permissions` in its settings.",
        "mcp_config": "Set `amp.mcpServers` in its settings.",
    },
)

COPILOT = Preset(
    name="copilot",
    program="copilot",
    # Piped input is ignored beside a prompt.
    argv=("--output-format=json", "--no-ask-user", "--no-color", "--no-auto-update", "{options}", "--prompt={prompt}"),
    resume_argv=(
        "--output-format=json",
        "--no-ask-user",
        "--no-color",
        "--no-auto-update",
        "--resume={session}",
        "{options}",
        "--prompt={prompt}",
    ),
    parser=ParserName.COPILOT,
    prompt=PromptChannel.ARGUMENT,
    options={
        "model": ("--model={model}",),
        "allowed_tool": ("--allow-tool={allowed_tool}",),
        "denied_tool": ("--deny-tool={denied_tool}",),
        "extra_dir": ("--add-dir={extra_dir}",),
        "mcp_config": ("--additional-mcp-config=@{mcp_file}",),
    },
    permissions={
        PermissionMode.DEFAULT: _flags(),
        PermissionMode.ACCEPT_EDITS: _flags("--allow-tool=write"),
        PermissionMode.BYPASS: _flags("--allow-all-tools"),
        PermissionMode.DONT_ASK: _flags(),
    },
    mcp=McpFormat.JSON_FILE,
    server_rule="{server}",
    login_variables=("COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
    inherited_env=("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_MODEL", "COPILOT_OFFLINE"),
    install_hint="Install it: npm install -g @github/copilot.",
    login_hint="Log in: run copilot once and type /login.",
    advice={
        "max_turns": _NO_HARD_STOP,
        "budget_usd": _NO_BUDGET_PER_RUN,
        "system_prompt": "Write it into .github/copilot-instructions.md.",
    },
    reports_tokens=False,
)

_FAKE_MODULE = ("-P", "-m", "herdbeat.testing.fake_agent")
FAKE = replace(
    CLAUDE,
    name="fake",
    # Our own Python, which has herdbeat. With -P a file of the working directory never takes the place of a module.
    program=sys.executable,
    argv=(*_FAKE_MODULE, *CLAUDE.argv),
    resume_argv=(*_FAKE_MODULE, *CLAUDE.resume_argv),
    env={},
    login_variables=(),
    install_hint="",
    login_hint="",
    status_argv=(),
    inherited_env=("FAKE_AGENT_HOME", "FAKE_AGENT_LOG"),
)
"""An agent for demos, examples and tests. It asks no model."""

_ALL = (CLAUDE, CODEX, GEMINI, AGY, OPENCODE, AIDER, QWEN, GOOSE, CURSOR, AMP, COPILOT, FAKE)
PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ALL})
RUNTIME_ALIASES: Mapping[str, str] = MappingProxyType({"sdk": "claude", "cli": "claude"})
"""Words of herdctl, which has two ways to call Claude. Here they are one."""


def find_preset(runtime: str, own: Mapping[str, Preset]) -> Preset | None:
    """Return the preset of a runtime; those that the user defined win over the built-in ones."""
    return own.get(runtime) or PRESETS.get(RUNTIME_ALIASES.get(runtime, runtime))


class InvalidPreset(Exception):
    """A preset of the user cannot be used. `problems` has a sentence for each fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = tuple(problems)


def resolve_preset(spec: AgentSpec) -> Preset | None:
    """Return the preset of an agent: its own, if its fleet file defines one, else the built-in one of that name."""
    if not spec.preset:
        return find_preset(spec.runtime, {})
    try:
        return parse_preset(spec.runtime, spec.preset)
    except InvalidPreset:  # the file was checked; this is a row of another version
        return None


_TEXT_KEYS = frozenset({"program", "error_line", "notice_line", "server_rule", "install_hint", "login_hint"})
_LIST_KEYS = frozenset({"argv", "resume_argv", "unset_env", "login_variables", "inherited_env", "status_argv"})
_MAP_KEYS = frozenset({"env", "advice"})
_CHOICES: Mapping[str, type[StrEnum]] = {
    "parser": ParserName,
    "prompt": PromptChannel,
    "mcp": McpFormat,
    "system_prompt_effect": SystemPromptEffect,
}
_FLAG_KEYS = frozenset({"usage_is_cumulative", "has_terminal_event", "reports_usd", "reports_tokens", "auto_denies"})
PRESET_KEYS = frozenset(each.name for each in fields(Preset)) - {"name"}
"""What a preset of the user may have, beside `like`. Its `option_env` and caveats come from the preset it is like."""


def parse_preset(name: str, value: Mapping[str, object]) -> Preset:
    """Return the preset that a mapping of the fleet file describes. Raises InvalidPreset with every fault.

    `like: claude` starts from a built-in preset. Without `parser`, the output is plain text.
    """
    problems: list[str] = []
    base = PRESETS.get(str(value.get("like"))) if "like" in value else None
    if "like" in value and base is None:
        problems.append(f'There is no preset "{value["like"]}": choose one of {", ".join(PRESETS)}.')
    read = {key: _read_key(key, each, problems) for key, each in value.items() if key != "like"}
    known: dict[str, object] = {each: getattr(base, each) for each in PRESET_KEYS} if base else {}
    merged = known | {key: each for key, each in read.items() if each is not None}
    merged.setdefault("parser", ParserName.TEXT)
    if merged["parser"] in (ParserName.TEXT, ParserName.OPENCODE):
        merged["has_terminal_event"] = False
    problems += _check_templates(merged)
    if problems:
        raise InvalidPreset(problems)
    return Preset(name=name, **merged)  # type: ignore[arg-type]  # every key was read by its type


def _read_key(key: str, value: object, problems: list[str]) -> object:  # noqa: PLR0911 - one return per kind of key
    if key in _TEXT_KEYS and isinstance(value, str):
        return value
    if key in _LIST_KEYS and _is_texts(value):
        return tuple(value)  # type: ignore[arg-type]
    if key in _MAP_KEYS and isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        return dict(value)
    if key in _CHOICES and value in tuple(_CHOICES[key]):
        return _CHOICES[key](str(value))
    if key in _FLAG_KEYS and isinstance(value, bool):
        return value
    if key == "max_prompt_bytes" and isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if key == "options" and isinstance(value, dict):
        return {name: tuple(args) for name, args in value.items() if _check_option(name, args, problems)}
    if key == "permissions" and isinstance(value, dict):
        return {
            PermissionMode(mode): PermissionFlags(args=tuple(args))
            for mode, args in value.items()
            if _check_permission(mode, args, problems)
        }
    problems.append(_describe_wrong_key(key))
    return None


def _describe_wrong_key(key: str) -> str:
    if key in _CHOICES:
        return f"`{key}` is one of {', '.join(_CHOICES[key])}."
    if key in PRESET_KEYS:
        kinds = {**dict.fromkeys(_TEXT_KEYS, "text"), **dict.fromkeys(_LIST_KEYS, "a list of texts")}
        kinds |= {**dict.fromkeys(_FLAG_KEYS, "true or false"), "max_prompt_bytes": "a whole number"}
        return f"`{key}` is {kinds.get(key, 'a mapping')}."
    return f"There is no key `{key}` in a preset."


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _check_option(name: object, args: object, problems: list[str]) -> bool:
    if name in OPTION_NAMES and _is_texts(args):
        return True
    known = ", ".join(sorted(OPTION_NAMES))
    problems.append(f"`options.{name}` is not usable: the options are {known}, each a list of texts.")
    return False


def _check_permission(mode: object, args: object, problems: list[str]) -> bool:
    if mode in tuple(PermissionMode) and _is_texts(args):
        return True
    problems.append(
        f"`permissions.{mode}` is not usable: the modes are {', '.join(PermissionMode)}, each a list of texts."
    )
    return False


def _check_templates(merged: Mapping[str, object]) -> list[str]:
    problems = []
    argv = merged.get("argv") or ()
    if not merged.get("program"):
        problems.append("`program` is missing: the file to start, or a name on PATH.")
    if not argv:
        problems.append("`argv` is missing: the arguments after the program.")
    place = {PromptChannel.ARGUMENT: "{prompt}", PromptChannel.FILE: "{prompt_file}"}.get(
        PromptChannel(str(merged.get("prompt", PromptChannel.STDIN)))
    )
    if place and argv and place not in " ".join(map(str, argv)):  # type: ignore[call-overload]
        problems.append(f"`argv` has no {place}: the program would not get the prompt. Add it, or set `prompt: stdin`.")
    for key in ("error_line", "notice_line"):
        try:
            re.compile(str(merged.get(key, "")))
        except re.error as error:
            problems.append(f"`{key}` is not a regular expression: {error}.")
    return problems
