"""docs/reference/runtimes.md: every built-in runtime, and how to define another one."""

from herdbeat.runners.agents.presets import OPTION_NAMES, PRESETS, PermissionMode, Preset
from scripts import markdown

_INTRO = """\
The `runtime` of an agent is the CLI that runs it. For every run herdbeat starts that CLI in a process group of its own,
in the working directory of the agent, gives it the prompt, and reads its output while it works. `sdk` and `cli`, the
words of herdctl, mean `claude`. `command` runs [any program](configuration.md#an-agent).

Success is what the CLI says, not its exit code alone. A run whose output ends without a result is failed, with the
reason `no_result`. When a run is cancelled or exceeds its `timeout`, the CLI gets INT, as by Ctrl-C, and five seconds
to end; then all of its processes get TERM, and KILL five seconds later. What it has reported until then is kept.

A CLI gets the [basic variables](configuration.md), the variables of its login below, and those that `env` of the agent
lists. `fake` asks no model and costs nothing: it is for demos, examples and tests.
"""

_OWN = """\
A CLI that is not in the list needs a definition under `runtimes` of the fleet file. `like` starts from a built-in one.

```yaml
runtimes:
  claude-beta: { like: claude, program: /opt/claude-beta/claude }
  house:
    program: house-agent
    argv: [--quiet, "{options}", "--task={prompt_file}"]
    prompt: file
    options: { model: ["--model={model}"] }
    error_line: "^ERROR"
agents:
  - { name: tidy, runtime: house, model: small, every: 1h, prompt: "Tidy up.", budget: { runs_per_day: 24 } }
```

- `argv` are the arguments after the program. The element `{options}` is replaced by the arguments of the options that
  are set; `{prompt}`, `{prompt_file}` and `{session}` by their values. No shell is involved: a value with blanks or
  quotes stays one argument.
- `prompt` is `stdin` (the default), `arg` or `file`.
- `parser` is how the output is read: `claude`, `codex`, `gemini`, `opencode`, `copilot`, or `text` (the default), where
  the exit code decides and everything printed is the answer. `error_line` names lines of text that mean failure,
  `notice_line` lines that are no part of the answer.
"""


def page() -> str:
    names = ", ".join(markdown.code(name) for name in sorted(OPTION_NAMES))
    options = (
        f"- `options` may have {names}. A setting that is missing has no option of the CLI, and `validate` warns of it."
    )
    return markdown.page(
        "Runtimes",
        _INTRO,
        markdown.section("Built-in runtimes", _overview()),
        markdown.section("The options of each", _settings()),
        markdown.section("Define a runtime", _OWN.strip() + "\n" + options),
    )


def _overview() -> str:
    head = ("runtime", "program", "prompt", "resumes", "reports", "login variables")
    return markdown.table(head, (_overview_row(preset) for preset in PRESETS.values()))


def _overview_row(preset: Preset) -> tuple[str, ...]:
    reports = [what for what, is_so in (("tokens", preset.reports_tokens), ("cost", preset.reports_usd)) if is_so]
    program = "herdbeat's own" if preset.name == "fake" else markdown.code(preset.program)
    resumes = "yes" if preset.can_resume else "no"
    login = markdown.codes(preset.login_variables)
    return markdown.code(preset.name), program, preset.prompt.value, resumes, " and ".join(reports) or "nothing", login


def _settings() -> str:
    head = ("runtime", "settings", "permission modes")
    return markdown.table(head, (_settings_row(preset) for preset in PRESETS.values()))


def _settings_row(preset: Preset) -> tuple[str, ...]:
    settings = sorted({*preset.options, *preset.option_env} - {"mcp_strict", "session_id"})
    modes = [mode for mode in PermissionMode if mode in preset.permissions]
    return markdown.code(preset.name), markdown.codes(settings), markdown.codes(modes)
