"""The command line of one run: a preset and a request in, arguments, input, environment and files out. Pure.

Nothing of a request is ever split, expanded or read by a shell. A value with blanks, quotes, newlines or a leading dash
is one argument, in a place where the CLI expects a value.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from herdbeat.domain.target import AgentSpec, ToolMode, ToolPolicy
from herdbeat.runners.agents.parsers import ParserName
from herdbeat.runners.agents.presets import (
    MAX_ARGUMENT_BYTES,
    McpFormat,
    PermissionFlags,
    PermissionMode,
    Preset,
    PromptChannel,
    SystemPromptEffect,
)

OWN_SERVER = "herdbeat"
"""The name under which an agent sees our MCP server. Its tools are `mcp__herdbeat__…`."""

_OWN_SERVER_START_S = 60
"""How long a CLI that waits for our server does so. A busy machine takes seconds to start it."""

_PLACEHOLDER_PATTERN = re.compile(r"\{([a-z_]+)\}")
_SESSION_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
_BARE_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """What one run asks of a CLI, whichever that is. Unset fields leave the CLI's own default.

    `scratch_dir` is a folder of this run alone; the files of the invocation go there. `session_id` resumes a session,
    `new_session_id` names a new one if the CLI has an option for it. `own_server` is our MCP server for this run.
    """

    prompt: str
    scratch_dir: str
    program: str | None = None
    model: str | None = None
    max_turns: int | None = None
    budget_usd: float | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    permission_mode: str = PermissionMode.ACCEPT_EDITS
    tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    tool_policy: ToolPolicy | None = None
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    own_server: Mapping[str, object] | None = field(default=None, repr=False)
    plugins: tuple[object, ...] = ()
    setting_sources: tuple[str, ...] | None = None
    extra_dirs: tuple[str, ...] = ()
    session_id: str | None = None
    new_session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchFile:
    """A file to write before the start, readable by its owner only: it may hold secrets."""

    path: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInvocation:
    """How to start the CLI. `env` is added to the run's environment and `unset_env` removed from it.

    `warnings` name all settings that the CLI has no option for, in sentences for `validate`.
    """

    argv: tuple[str, ...]
    stdin: bytes | None = field(default=None, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    unset_env: tuple[str, ...] = ()
    files: tuple[ScratchFile, ...] = ()
    warnings: tuple[str, ...] = ()
    resumes: bool = False


def request_from_spec(
    spec: AgentSpec,
    prompt: str,
    scratch_dir: str,
    *,
    program: str | None = None,
    tool_policy: ToolPolicy | None = None,
    budget_usd: float | None = None,
    extra_dirs: tuple[str, ...] = (),
    session_id: str | None = None,
    own_server: Mapping[str, object] | None = None,
) -> AgentRequest:
    """Return the request of a target for one run. The policy of a schedule replaces the agent's."""
    return AgentRequest(
        prompt=prompt,
        scratch_dir=scratch_dir,
        program=program,
        model=spec.model,
        max_turns=spec.session_max_turns if spec.max_turns is None else spec.max_turns,
        budget_usd=budget_usd,
        system_prompt=spec.system_prompt,
        append_system_prompt=spec.append_system_prompt,
        permission_mode=spec.permission_mode,
        tools=spec.tools,
        allowed_tools=spec.allowed_tools,
        denied_tools=spec.denied_tools,
        tool_policy=tool_policy or spec.tool_policy,
        mcp_servers=spec.mcp_servers,
        own_server=own_server,
        plugins=spec.plugins,
        setting_sources=spec.setting_sources,
        extra_dirs=extra_dirs or spec.extra_dirs,
        session_id=session_id,
    )


def build_argv(preset: Preset, request: AgentRequest) -> AgentInvocation:
    """Return how to start the CLI for this request."""
    return _Builder(preset, request).build()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolRules:
    """Permission mode and tool lists after the tool policy was applied."""

    mode: PermissionMode
    tools: tuple[str, ...] | None
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    offers_own_server: bool


class _Builder:
    """Collects the parts of one invocation."""

    def __init__(self, preset: Preset, request: AgentRequest) -> None:
        self._preset = preset
        self._request = request
        self._options: list[str] = []
        self._env: dict[str, str] = dict(preset.env)
        self._files: dict[str, str] = {}
        self._warnings: list[str] = []
        self._values: dict[str, str] = {}

    def build(self) -> AgentInvocation:
        request, preset = self._request, self._preset
        rules = self._resolve_tools()
        self._add_model_and_limits()
        self._add_permission(rules)
        self._add_tools(rules)
        self._add_system_prompts()
        self._add_folders()
        self._add_servers(rules)
        resumes = self._can_resume()
        template = preset.resume_argv if resumes else preset.argv
        if not resumes and request.new_session_id and "session_id" in preset.options:
            self._add_option("session_id", request.new_session_id)
        stdin = self._place_prompt(template)
        program = request.program or preset.program
        return AgentInvocation(
            argv=(program, *(_without_nul(each) for each in self._fill_template(template))),
            stdin=stdin,
            env={name: _without_nul(value) for name, value in self._env.items()},
            unset_env=preset.unset_env,
            files=tuple(ScratchFile(path=path, text=text) for path, text in self._files.items()),
            warnings=tuple(dict.fromkeys(self._warnings)),
            resumes=resumes,
        )

    def _resolve_tools(self) -> _ToolRules:
        request = self._request
        mode = self._resolve_mode(request.permission_mode)
        policy = request.tool_policy or ToolPolicy()
        tools, allowed, denied = request.tools, request.allowed_tools, request.denied_tools
        if request.tool_policy is not None:
            match policy.mode:
                case ToolMode.ALLOW_ALL:
                    mode = self._open(mode, denied)
                case ToolMode.DENY_LIST:
                    denied += policy.tools
                    mode = self._open(mode, denied)
                case ToolMode.ALLOW_LIST:
                    mode = PermissionMode.DONT_ASK if mode is not PermissionMode.PLAN else mode
                    allowed = policy.tools
                case ToolMode.DENY_ALL:
                    mode = PermissionMode.PLAN if "tools" not in self._preset.options else PermissionMode.DONT_ASK
                    tools, allowed, denied = (), (), (*denied, "mcp__*")
                    if "tools" not in self._preset.options:
                        self._warn("`tool_policy: deny_all` can only be approximated by its mode without changes")
                case ToolMode.REQUIRE_APPROVAL:
                    mode = PermissionMode.DEFAULT
                    self._warn("approval is impossible in a headless run: such calls are denied and marked")
        if mode is PermissionMode.BYPASS and request.tool_policy is not None:
            self._warn(f"`tool_policy: {policy.mode}` lets it use every other tool unasked")
        return _ToolRules(
            mode=mode,
            tools=tools,
            allowed=allowed,
            denied=denied,
            offers_own_server=policy.mode is not ToolMode.DENY_ALL,
        )

    def _open(self, mode: PermissionMode, denied: tuple[str, ...]) -> PermissionMode:
        """Return the mode that allows everything else, unless another mode was chosen or a denial would be lost."""
        keeps_denials = not denied or "denied_tool" in self._preset.options
        return PermissionMode.BYPASS if mode is PermissionMode.ACCEPT_EDITS and keeps_denials else mode

    def _resolve_mode(self, name: str) -> PermissionMode:
        try:
            mode = PermissionMode(name)
        except ValueError:
            self._warn(f'there is no permission mode "{name}": `default` is used')
            return PermissionMode.DEFAULT
        if mode is PermissionMode.DELEGATE:
            self._warn("`permission_mode: delegate` no longer exists: `default` is used")
            return PermissionMode.DEFAULT
        return mode

    def _add_model_and_limits(self) -> None:
        request = self._request
        if request.model:
            self._add_option("model", request.model)
        if request.max_turns is not None:
            self._add_option("max_turns", str(request.max_turns))
        if request.budget_usd is not None:
            amount = f"{request.budget_usd:.6f}".rstrip("0").rstrip(".")
            self._add_option("budget_usd", amount, label="budget.usd_per_run")
        if request.setting_sources is not None and "setting_sources" in self._preset.options:
            self._add_option("setting_sources", ",".join(request.setting_sources))

    def _add_permission(self, rules: _ToolRules) -> None:
        if not self._preset.permissions and rules.mode is PermissionMode.ACCEPT_EDITS:
            return  # a template of the user says all about permissions itself, and nothing else was asked for
        flags = self._preset.permissions.get(rules.mode)
        if flags is None:
            self._warn(f"it has no permission mode like `{rules.mode}`: its own default decides")
            flags = PermissionFlags()
        if flags.caveat:
            self._warn(f"with `permission_mode: {rules.mode}`, {flags.caveat}")
        if not self._preset.auto_denies and rules.mode not in (PermissionMode.BYPASS, PermissionMode.PLAN):
            self._warn("it may wait for a person's consent until the run's `timeout`")
        self._options += flags.args
        self._env |= flags.env

    def _add_tools(self, rules: _ToolRules) -> None:
        if rules.tools is not None:
            self._add_option("tools", ",".join(rules.tools), label="tools")
        for rule in rules.allowed:
            self._add_option("allowed_tool", rule, label="allowed_tools")
        for rule in rules.denied:
            if rule != "mcp__*" or "denied_tool" in self._preset.options:
                self._add_option("denied_tool", rule, label="denied_tools")

    def _add_system_prompts(self) -> None:
        request, preset = self._request, self._preset
        if request.system_prompt is not None:
            name = "system_prompt"
            if not self._has_option(name) and self._has_option("append_system_prompt"):
                name = "append_system_prompt"
            adds = preset.system_prompt_effect is SystemPromptEffect.ADDS or name != "system_prompt"
            if adds and self._has_option(name):
                self._warn("`system_prompt` is added to its own system prompt, which it cannot replace")
            self._add_option(name, request.system_prompt, label="system_prompt")
        if request.append_system_prompt is not None:
            self._add_option("append_system_prompt", request.append_system_prompt)

    def _add_folders(self) -> None:
        for folder in self._request.extra_dirs:
            self._add_option("extra_dir", folder, label="extra_dirs")
        for plugin in self._request.plugins:
            path = plugin.get("path") if isinstance(plugin, Mapping) else plugin
            self._add_option("plugin_dir", str(path), label="plugins")

    def _add_servers(self, rules: _ToolRules) -> None:
        request, preset = self._request, self._preset
        servers = dict(self._usable_servers(request.mcp_servers))
        if request.own_server is not None and rules.offers_own_server:
            self._add_own_server(servers, request.own_server)
        match preset.mcp:
            case McpFormat.NONE if servers:
                self._warn_cannot("mcp_config", "mcp_servers")
            case McpFormat.JSON_FILE if servers:
                self._write_servers(servers)
            case McpFormat.CODEX_OVERRIDES:
                for name, server in servers.items():
                    self._add_codex_server(name, server)
            case McpFormat.OPENCODE_CONFIG:
                self._add_opencode_config(servers)
            case _:
                pass

    def _add_own_server(self, servers: dict[str, dict[str, object]], server: Mapping[str, object]) -> None:
        """Offer our own server. Its tools are allowed by name, because no person is there to approve them."""
        if self._preset.mcp is McpFormat.NONE:
            self._warn("it cannot be offered herdbeat's own tools, such as `wake_me`")
            return
        is_codex = self._preset.mcp is McpFormat.CODEX_OVERRIDES
        servers[OWN_SERVER] = _with_type(server if is_codex else _without_variable_names(server))
        if self._preset.parser is ParserName.CLAUDE and self._preset.mcp is McpFormat.JSON_FILE:
            # Else it asks its model before the server is connected, and the model does not see the tools.
            servers[OWN_SERVER]["alwaysLoad"] = True
            self._env.setdefault("MCP_CONNECT_TIMEOUT_MS", str(_OWN_SERVER_START_S * 1000))
        if "allowed_tool" in self._preset.options:
            self._add_option("allowed_tool", self._preset.server_rule.replace("{server}", OWN_SERVER))

    def _usable_servers(self, servers: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, dict[str, object]]]:
        for name, server in servers.items():
            if server.get("url") or server.get("command"):
                yield name, _with_type(server)
            else:
                self._warn(f'the MCP server "{name}" has neither `command` nor `url` and is left out')

    def _write_servers(self, servers: Mapping[str, object]) -> None:
        self._values["mcp_file"] = self._write("mcp.json", _dump({"mcpServers": servers}))
        self._options += self._fill(self._preset.options.get("mcp_config", ()))
        # Otherwise servers of .mcp.json are used too, which is meant where the settings of the project are read.
        sources = self._request.setting_sources
        if sources is not None and "project" not in sources:
            self._options += self._preset.options.get("mcp_strict", ())

    def _add_codex_server(self, name: str, server: Mapping[str, object]) -> None:
        if not _BARE_KEY_PATTERN.fullmatch(name):
            self._warn(f'the MCP server "{name}" is left out: use letters, digits, "-" and "_" in its name')
            return
        if server["type"] == "sse":
            self._warn(f'the MCP server "{name}" is left out: it has no servers of type sse')
            return
        keys = {"command": "command", "args": "args", "env": "env", "url": "url", "headers": "http_headers"}
        if "env_vars" in server or "bearer_token_env_var" in server:
            # Our own server: its token is in the environment of the CLI, and not in the list of processes.
            keys = {each: each for each in ("command", "args", "env_vars", "url", "bearer_token_env_var")}
            # Codex leaves out the tools of an optional server that is not ready at once; on a busy machine it is not.
            self._options += ["-c", f"mcp_servers.{name}.required=true"]
            self._options += ["-c", f"mcp_servers.{name}.startup_timeout_sec={_OWN_SERVER_START_S}"]
        for ours, theirs in keys.items():
            if server.get(ours):
                self._options += ["-c", f"mcp_servers.{name}.{theirs}={_to_toml(server[ours])}"]
        if "env" in keys and (server.get("env") or server.get("headers")):
            self._warn(f'`env` and `headers` of the MCP server "{name}" are visible in the list of processes')

    def _add_opencode_config(self, servers: Mapping[str, Mapping[str, object]]) -> None:
        config: dict[str, object] = {}
        if servers:
            config["mcp"] = {name: _to_opencode(server) for name, server in servers.items()}
        if "system_prompt" in self._values:
            config["instructions"] = [self._file_value("system_prompt")]
        if config:
            self._env["OPENCODE_CONFIG_CONTENT"] = _dump(config)

    def _can_resume(self) -> bool:
        session_id = self._request.session_id
        if session_id is None:
            return False
        if not self._preset.can_resume:
            self._warn("it cannot resume a session: every run starts afresh")
            return False
        if not _SESSION_ID_PATTERN.fullmatch(session_id):
            self._warn("the stored session id is not one: the run starts afresh")
            return False
        self._values["session"] = session_id
        return True

    def _place_prompt(self, template: tuple[str, ...]) -> bytes | None:
        prompt, preset = self._request.prompt, self._preset
        data = prompt.encode("utf-8", "replace")
        limit = MAX_ARGUMENT_BYTES if preset.prompt is PromptChannel.ARGUMENT else preset.max_prompt_bytes
        if limit is not None and len(data) > limit:
            self._warn(f"the prompt has {len(data)} bytes, and it takes at most {limit}")
        self._values["prompt"] = prompt
        if any("{prompt_file}" in each for each in template):
            self._values["prompt_file"] = self._write("prompt.md", prompt)
        return data if preset.prompt is PromptChannel.STDIN else None

    def _fill_template(self, template: tuple[str, ...]) -> Iterator[str]:
        for element in template:
            if element == "{options}":
                yield from self._options
            else:
                yield from self._fill((element,))

    def _has_option(self, name: str) -> bool:
        return name in self._preset.options or name in self._preset.option_env

    def _add_option(self, name: str, value: str, label: str = "") -> None:
        """Add the arguments and variables that tell the CLI this value; warn if there are none."""
        if not self._has_option(name):
            self._warn_cannot(name, label or name)
            return
        self._values[name] = value
        self._options += self._fill(self._preset.options.get(name, ()))
        for variable, template in self._preset.option_env.get(name, {}).items():
            self._env[variable] = self._fill((template,))[0]

    def _fill(self, templates: tuple[str, ...]) -> list[str]:
        """Replace the placeholders, once: what is put in is not looked at again. Unknown ones stay as they are."""
        return [_PLACEHOLDER_PATTERN.sub(self._lookup, template) for template in templates]

    def _lookup(self, match: re.Match[str]) -> str:
        name = match[1]
        if name in self._values:
            return self._values[name]
        if name.endswith("_file") and name.removesuffix("_file") in self._values:
            return self._file_value(name.removesuffix("_file"))
        if name.endswith("_quoted") and name.removesuffix("_quoted") in self._values:
            return _to_toml(self._values[name.removesuffix("_quoted")])
        return match[0]

    def _file_value(self, name: str) -> str:
        return self._write(f"{name.replace('_', '-')}.md", self._values[name])

    def _write(self, name: str, text: str) -> str:
        path = str(PurePosixPath(self._request.scratch_dir) / name)
        self._files[path] = text
        return path

    def _warn_cannot(self, name: str, label: str) -> None:
        advice = self._preset.advice.get(name, "")
        self._warnings.append(f"{self._preset.name} has no option for `{label}`. {advice}".strip())

    def _warn(self, sentence: str) -> None:
        self._warnings.append(f"{self._preset.name}: {sentence}.")


def _with_type(server: Mapping[str, object]) -> dict[str, object]:
    """Return the server with its type. Claude Code leaves out, without a word, a `url` that has none."""
    return {"type": server.get("type") or ("http" if server.get("url") else "stdio"), **_without_none(server)}


def _without_none(server: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in server.items() if value is not None and key != "type"}


def _without_variable_names(server: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in server.items() if key not in ("env_vars", "bearer_token_env_var")}


def _to_opencode(server: Mapping[str, object]) -> dict[str, object]:
    if server["type"] != "stdio":
        remote: dict[str, object] = {"type": "remote", "url": server.get("url"), "enabled": True}
        return remote | ({"headers": server["headers"]} if server.get("headers") else {})
    args = server.get("args")
    command = [str(server.get("command")), *(map(str, args) if isinstance(args, list | tuple) else ())]
    local: dict[str, object] = {"type": "local", "command": command, "enabled": True}
    return local | ({"environment": server["env"]} if server.get("env") else {})


def _to_toml(value: object) -> str:
    """Return a TOML value: a text, a list of texts or a table of texts."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_to_toml(str(key))} = {_to_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_to_toml(each) for each in value) + "]"
    # A JSON string is a TOML string, except that TOML wants DEL escaped and has no surrogates.
    text = str(value).encode("utf-8", "replace").decode()
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _without_nul(text: str) -> str:
    """Return what a process can be given as an argument: no NUL, and nothing that UTF-8 cannot express."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
