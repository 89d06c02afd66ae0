"""A secret in every position where a file may hold one, and everything that every command prints."""

import os
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.support.running_fleet import RunningFleet

from herdbeat import redaction
from herdbeat.clock import SystemClock
from herdbeat.testing.command_line import CommandLine

POSITIONS = (
    *("URL_PATH", "URL_PASSWORD", "HEADER", "BODY", "ARGUMENT", "ENV_VALUE", "PROMPT", "AGENT_ARGUMENT", "PRECHECK"),
    *("HOOK_SECRET_VALUE", "MCP", "SYSTEM", "NOTIFY_URL"),
)
"""Variables of the environment that the fleet uses."""

FROM_DOTENV = "canary-dotenv-4711"
CANARY = re.compile(r"canary-[a-z_-]+-4711|lit-[a-z-]+-77", re.IGNORECASE)

FLEET_YAML = """\
egress: {{ allow: ["127.0.0.1"] }}
notify: {{ ops: {{ type: webhook, url: "https://example.com/${{NOTIFY_URL}}" }} }}
endpoints:
  - name: probe
    url: "http://me:${{URL_PASSWORD}}@127.0.0.1:{port}/${{URL_PATH}}?token=lit-query-77"
    method: POST
    headers: {{ X-Place: "${{HEADER}}" }}
    body: {{ text: "${{BODY}}", api_key: lit-body-77 }}
    every: 1h
  - name: text
    url: "http://127.0.0.1:{port}/"
    method: POST
    headers: {{ Authorization: Bearer lit-header-77 }}
    body: '{{"password": "lit-json-77"}}'
    every: 1h
  - {{ name: closed, url: "http://me:lit-url-pw-77@127.0.0.1:1/${{URL_PATH}}", every: 1h }}
commands:
  - name: talker
    command: ["{python}", -c, "import sys, os; print(sys.argv, os.environ['PLACE']); sys.exit(' '.join(sys.argv))",
              "${{ARGUMENT}}", --token, lit-option-77, "${{FROM_FILE}}"]
    env: {{ PLACE: "${{ENV_VALUE}}" }}
    every: 1h
    prompt: "say ${{PROMPT}}"
    precheck: ["true", "${{PRECHECK}}"]
  - {{ name: gone, command: ["./no-such-program", "${{ARGUMENT}}"], every: 1h }}
agents:
  - name: scout
    runtime: command
    command: ["{python}", -c, "import sys; print(sys.argv, sys.stdin.read())", "${{AGENT_ARGUMENT}}", "{{prompt}}"]
    system_prompt: "${{SYSTEM}}"
    mcp_servers: {{ files: {{ command: x, args: ["${{MCP}}"] }} }}
    schedules:
      look: {{ every: 1h, prompt: "look ${{PROMPT}}" }}
      hook: {{ type: webhook, secret: "${{HOOK_SECRET_VALUE}}" }}
      other: {{ type: webhook, secret: lit-secret-77 }}
"""
RUNS = ("probe", "text", "closed", "talker", "gone", "scout/look")
COMMANDS = (
    *("validate", "validate --json", "validate --strict", "config show", "config show -v", "config show --json"),
    *("config show --plain", "apply --dry-run", "apply --dry-run --json", "list", "list --json", "list --plain"),
    *("status", "status --json", "next", "next --json", "timeline", "runs", "runs --json", "runs --plain"),
    *("beats", "beats --json", "changes", "changes --json", "changes --plain", "doctor", "doctor --json", "nodes"),
    *(f"show {name}" for name in (*RUNS, "scout", "scout/hook")),
    *(f"show {name} --json" for name in (*RUNS, "scout", "scout/hook")),
    *(f"explain {name}" for name in RUNS),
    *(f"explain {name} --json" for name in RUNS),
    *(f"logs {name}" for name in RUNS),
    *(f"logs {name} --json" for name in RUNS),
    *("db check", "pause probe", "disable gone"),
)


class EchoHandler(BaseHTTPRequestHandler):
    """Answers with everything it was sent, as careless programs do."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = f"{self.path}\n{self.headers}\n".encode() + body
        self.send_response(500)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def echo_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def fleet(tmp_path: Path, echo_port: int, monkeypatch: pytest.MonkeyPatch) -> RunningFleet:
    for name in POSITIONS:
        monkeypatch.setenv(name, f"canary-{name.lower()}-4711")
    (tmp_path / ".env").write_text(f"FROM_FILE={FROM_DOTENV}\n", encoding="utf-8")
    fleet = RunningFleet(tmp_path)
    fleet.write(FLEET_YAML.format(port=echo_port, python=sys.executable))
    return fleet


def print_in_new_process(folder: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return all that a command prints. As in a new process, it knows no secret yet: sixty of those take a minute."""
    monkeypatch.setattr(redaction, "_registered", set())
    monkeypatch.setattr(redaction, "_known_values", None)
    answer = CommandLine(folder=folder, clock=SystemClock(), environ=dict(os.environ)).run(*words.split())
    return answer.out + answer.err


def test_no_command_prints_a_secret(fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: dict[str, str] = {}
    with fleet.up() as feed:
        for _ in RUNS:
            printed["up"] = printed.get("up", "") + str(feed.until("run_finished"))
        for words in COMMANDS:
            printed[words] = print_in_new_process(fleet.folder, words, monkeypatch)

    for path in (fleet.folder / ".herdbeat" / "logs").rglob("*.jsonl"):
        printed[str(path)] = path.read_text(encoding="utf-8")
    leaks = {words: sorted(set(CANARY.findall(text))) for words, text in printed.items() if CANARY.search(text)}
    assert leaks == {}
    assert "say ${PROMPT}" in printed["show talker"]
    assert "http://me:${URL_PASSWORD}@127.0.0.1" in printed["show probe"]
    assert "***" in printed["logs talker"]
    assert "***" in printed["runs"]


def test_a_target_made_by_hand_keeps_its_secrets_hidden(fleet: RunningFleet) -> None:
    fleet.write("commands: [{ name: quiet, command: ['true'], every: 1h }]\n")
    url = "http://me:lit-url-pw-77@127.0.0.1:1/x?token=lit-query-77"
    printed = [fleet.call("create", "made", "--url", url, "--every", "1h")]
    printed.append(fleet.call("apply"))  # of the whole fleet, which knows nothing of it

    commands = ("show made", "show made --json", "changes --json", "run made", "doctor", "list --json")
    printed += [fleet.call(*words.split()) for words in commands]

    assert "http://me:***@127.0.0.1:1/x?token=***" in printed[2].stdout
    assert [CANARY.findall(each.stdout + each.stderr) for each in printed] == [[]] * len(printed)


def test_a_changed_value_of_a_variable_is_no_change_of_the_fleet(
    fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.call("apply")
    for name in POSITIONS:
        monkeypatch.setenv(name, f"canary-second-{name.lower()}-4711")

    answers = [fleet.call(*words.split()) for words in ("apply --dry-run", "apply", "changes", "changes --json")]

    assert "No change" in answers[1].stderr
    assert [CANARY.findall(each.stdout + each.stderr) for each in answers] == [[]] * len(answers)


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://herd:lit-store-pw-77@host:port/fleet",
        "postgres:/herd:lit-store-pw-77@host/fleet",
        "postgresql://herd:lit-store-pw/77@lit-more-77@db:99999/x",
        "mysql://herd:lit-store-pw-77@host/fleet",
        "nothing?password=lit-store-pw-77",
    ],
)
def test_a_malformed_store_is_reported_without_its_password(
    fleet: RunningFleet, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.write(f"secret: lit-above-77\nstore: {store}\n")

    printed = {
        words: print_in_new_process(fleet.folder, words, monkeypatch)
        for words in ("validate", "validate --json", "list", "doctor", "config show")
    }
    up = fleet.call("up")
    printed["up"] = up.stdout + up.stderr

    assert all(printed.values())
    assert {words: text for words, text in printed.items() if "lit-" in text} == {}


def test_a_store_that_does_not_answer_is_reported_without_its_password(
    fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.write("store: postgresql://herd:lit-store-pw-77@127.0.0.1:1/x?sslpassword=lit-ssl-77&connect_timeout=1\n")

    printed = {
        words: print_in_new_process(fleet.folder, words, monkeypatch)
        for words in ("validate", "config show", "config show --json", "list", "doctor")
    }
    up = fleet.call("up")
    printed["up"] = up.stdout + up.stderr

    assert all(printed.values())
    assert {words: text for words, text in printed.items() if "lit-" in text} == {}


def test_a_mistake_beside_a_secret_shows_the_line_without_it(fleet: RunningFleet) -> None:
    fleet.write(
        "endpoints:\n"
        "  - { name: a, url: 'http://me:lit-url-pw-77@x', every: 5x }\n"
        "  - { name: b, url: 'ftp://me:lit-url-pw-77@x', every: 5m, headers: { Cookie: lit-cookie-77, Token: [1] } }\n"
        "  - name: c\n    url: https://x.example\n    headers:\n      Authorization: lit-header-77\n    ever: 5m\n"
    )

    answer = fleet.call("validate")

    assert "lit-" not in answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    index = next(number for number, line in enumerate(lines) if "every: 5x" in line)
    assert lines[index + 1].index("^") == lines[index].index("5x"), "the caret is below the mistake"
