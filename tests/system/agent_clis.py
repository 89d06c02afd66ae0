"""The real agent CLIs: how each is sent to the model server, and the tool call with which it makes a file."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

KEY = "sk-of-the-system-tests"
"""The API key of every CLI, unless a test has another one."""
MADE_FILE = "made-by-tool"
_SHELL = f"touch {MADE_FILE} && echo done"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCli:
    """One CLI. `shell_call` is a directive that lets its model make MADE_FILE in the working directory.

    `reports_usd`: it knows prices. `denies_tools`: a call that nobody allowed is denied, and said to be.
    `start_s`: on a busy machine it has asked its model within so many seconds.
    """

    name: str
    shell_call: str
    model: str
    api_path: str
    reports_usd: bool = False
    denies_tools: bool = True
    start_s: int = 25


CLAUDE = AgentCli(
    name="claude",
    model="sonnet",
    api_path="/v1/messages",
    shell_call=f"call Bash {json.dumps({'command': _SHELL, 'description': 'Make a file'})}",
    reports_usd=True,
)
CODEX = AgentCli(
    name="codex",
    model="gpt-5",
    api_path="/v1/responses",
    shell_call=f"call exec_command {json.dumps({'cmd': _SHELL})}",
    denies_tools=False,  # its sandbox lets the command fail instead
)
GEMINI = AgentCli(
    name="gemini",
    model="gemini-2.5-flash",  # without one it asks a model which model to ask
    api_path=":streamGenerateContent",
    shell_call=f"call run_shell_command {json.dumps({'command': _SHELL})}",
)
QWEN = AgentCli(
    name="qwen",
    model="qwen3-coder",
    api_path="/v1/chat/completions",
    shell_call=f"call run_shell_command {json.dumps({'command': _SHELL, 'is_background': False})}",
)
OPENCODE = AgentCli(
    name="opencode",
    model="anthropic/claude-sonnet-4-5",
    api_path="/v1/messages",
    shell_call=f"call bash {json.dumps({'command': _SHELL, 'description': 'Make a file'})}",
    reports_usd=True,
    start_s=45,
)
AGENT_CLIS = (CLAUDE, CODEX, GEMINI, QWEN, OPENCODE)


def needs_cli(cli: AgentCli) -> ParameterSet:
    """Return the CLI as a parameter of a test, which then needs it."""
    return pytest.param(cli, id=cli.name, marks=pytest.mark.needs(cli.name))


@dataclass(frozen=True, slots=True)
class AgentHome:
    """A home folder in which every CLI is set up to ask the model server, and a git repository to work in."""

    folder: Path
    url: str
    key: str = KEY

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def variables(self) -> dict[str, str]:
        """What a user would have in the environment of a shell for all of the CLIs."""
        return {
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": self.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "IS_SANDBOX": "1",  # or it refuses to bypass permissions for root, as who these tests often run
            "CODEX_HOME": str(self.folder / ".codex"),
            "CODEX_API_KEY": self.key,
            "GEMINI_API_KEY": self.key,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "OPENAI_API_KEY": self.key,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_MODEL": QWEN.model,
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }

    def set_up(self) -> None:
        """Make the repository, and write the settings of the CLIs."""
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)
        self.write_settings()

    def write_settings(self) -> None:
        for path, text in self._settings().items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _settings(self) -> dict[str, str]:
        gemini = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": False}}
        provider = {"options": {"baseURL": f"{self.url}/v1", "apiKey": self.key}}
        opencode = {"model": OPENCODE.model, "autoupdate": False, "provider": {"anthropic": provider}}
        return {
            ".codex/config.toml": _CODEX_CONFIG.format(url=self.url),
            ".gemini/settings.json": json.dumps(gemini),
            ".config/opencode/opencode.json": json.dumps(opencode),
        }


_CODEX_CONFIG = """\
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "CODEX_API_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def find_processes(home: Path) -> list[str]:
    """Return the command lines of all processes with this home folder: the CLIs, and whatever they have started."""
    mark = f"HOME={home}\0".encode()
    return [line for folder in Path("/proc").glob("[0-9]*") if (line := _read_marked(folder, mark))]


def _read_marked(folder: Path, mark: bytes) -> str:
    try:
        if mark not in b"\0" + (folder / "environ").read_bytes() + b"\0":
            return ""
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # it has ended meanwhile, or it is another user's
        return ""
