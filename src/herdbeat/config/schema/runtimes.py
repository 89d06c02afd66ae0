"""The keys of a runtime that a fleet file defines: how the CLI of an agent is called, and how its output is read."""

from herdbeat.config.schema.formats import TEXT, VARIABLE_NAME
from herdbeat.config.schema.table import Field, ListOf, MapOf, Table
from herdbeat.config.schema.types import Boolean, Choice, Integer, ParsedText, Text

BUILTIN_RUNTIMES = (
    *("claude", "codex", "gemini", "agy", "opencode", "aider", "qwen", "goose", "cursor", "amp", "copilot"),
    *("fake", "command"),
)
HERDCTL_RUNTIMES = ("sdk", "cli")
"""Both mean claude: herdctl calls it in two ways."""

RUNTIME_NAME = ParsedText("the name of a runtime", str, examples=BUILTIN_RUNTIMES)

_ARGUMENTS = ListOf(Text(allows_empty=True))
_PARSERS = ("claude", "codex", "gemini", "opencode", "copilot", "text")
RUNTIME = Table(
    "A runtime",
    Field("like", Choice(BUILTIN_RUNTIMES[:-1]), "Built-in runtime whose values apply where this one sets none."),
    Field("program", TEXT, "The program: a name on the PATH, or a file."),
    Field("argv", _ARGUMENTS, "Its arguments; {options}, {prompt}, {prompt_file} and {session} are replaced."),
    Field("resume_argv", _ARGUMENTS, "Its arguments for a run that resumes {session}.", unset="it cannot resume"),
    Field("prompt", Choice(("stdin", "arg", "file")), "How it gets the prompt.", unset="stdin"),
    Field("parser", Choice(_PARSERS), "How its output is read.", unset="text"),
    Field("options", MapOf(_ARGUMENTS), "Arguments by setting, such as model: [--model={model}]."),
    Field("permissions", MapOf(_ARGUMENTS), "Arguments by permission mode."),
    Field("env", MapOf(Text(allows_empty=True), VARIABLE_NAME), "Environment variables that it always gets."),
    Field("unset_env", ListOf(VARIABLE_NAME), "Environment variables that it never gets."),
    Field("login_variables", ListOf(VARIABLE_NAME), "Variables of its login, which it gets from the node."),
    Field("inherited_env", ListOf(VARIABLE_NAME), "Other variables that it gets from the node."),
    Field("error_line", TEXT, "Plain text: regular expression of lines that mean failure."),
    Field("notice_line", TEXT, "Plain text: regular expression of lines that are no part of the answer."),
    Field("mcp", Choice(("none", "json_file")), "Whether the option mcp_config names a file of MCP servers."),
    Field("server_rule", TEXT, "Tool rule that allows all tools of an MCP {server}."),
    Field("system_prompt_effect", Choice(("replaces", "adds")), "What a system prompt does to its own."),
    Field("max_prompt_bytes", Integer(1), "Longest prompt that it accepts."),
    Field("usage_is_cumulative", Boolean(), "Its totals include earlier runs of a resumed session."),
    Field("reports_usd", Boolean(), "It reports a cost in dollars."),
    Field("reports_tokens", Boolean(), "It reports tokens."),
    Field("auto_denies", Boolean(), "It denies a tool that needs consent, instead of waiting for a person."),
    Field("has_terminal_event", Boolean(), "Its output says when it is over."),
    Field("advice", MapOf(TEXT), "What to do instead, by setting that it has no option for."),
)
RUNTIMES = Field("runtimes", MapOf(RUNTIME, RUNTIME_NAME), "Runtimes of agents, by name.", nullable=True)
