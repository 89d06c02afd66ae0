"""No byte of what herdbeat keeps has the value of a variable, while every target, receiver and program got it."""

import json
import os
import re
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread

import psycopg
import pytest
from psycopg import sql
from tests.support.postgres_server import PostgresServer, new_database
from tests.support.running_fleet import EventFeed, RunningFleet

FROM_ENVIRONMENT = (
    *("URL", "QUERY", "HEADER", "BODY", "OK_HEADER", "ARGUMENT", "ENV", "PROMPT", "PRECHECK", "AGENT_ARGUMENT"),
    *("AGENT_PROMPT", "SYSTEM", "MCP", "HOOK", "HOOK_HEADER", "NOTIFY", "HOOK_ARGUMENT", "WORK"),
)
"""Each variable `S_NAME` holds `canary-name-4711`."""

CANARY = re.compile(r"canary-[a-z_]+-4711", re.IGNORECASE)
DOTENV = "S_DOTENV=canary-dotenv-4711\n"
WAIT_S = 60

SCRIPT = """\
import json, os, pathlib, sys
received = pathlib.Path(os.environ["RECEIVED"])
text = json.dumps([sys.argv, os.environ.get("PLACE", ""), sys.stdin.read() if "stdin" in sys.argv else ""])
with received.open("a") as file:
    file.write(text + "\\n")
if "list" in sys.argv:
    print(json.dumps({"id": "1", "title": "an item"}))
elif "quiet" not in sys.argv:
    print(text)
    print(text, file=sys.stderr)
    pathlib.Path("metadata.json").write_text(json.dumps({"said": text}))
if "fail" in sys.argv:
    sys.exit("it failed with " + text)
"""
FLEET = """\
version: 1
fleet: {{ name: careless }}
timezone: UTC
{store}
egress: {{ allow: ["127.0.0.1"] }}
notify: {{ ops: {{ type: webhook, url: "http://127.0.0.1:{port}/notify/${{S_NOTIFY}}" }} }}
endpoints:
  - name: probe
    url: "http://127.0.0.1:{port}/fail/${{S_URL}}?token=${{S_QUERY}}"
    method: POST
    headers: {{ Authorization: "Bearer ${{S_HEADER}}", X-Other: "${{S_DOTENV}}" }}
    body: {{ text: ["${{S_BODY}}"], name: "${{S_BODY}}" }}
    every: 1h
  - name: fine
    url: "http://127.0.0.1:{port}/echo"
    method: POST
    headers: {{ X-Key: "${{S_OK_HEADER}}" }}
    every: 1h
commands:
  - name: talker
    command: ["{python}", say.py, stdin, fail, --token, "${{S_ARGUMENT}}", "$${{HOME}}"]
    env: {{ PLACE: "${{S_ENV}}", RECEIVED: "{received}" }}
    every: 1h
    prompt: "say ${{S_PROMPT}}"
    precheck: ["{python}", say.py, "${{S_PRECHECK}}"]
    hooks:
      on_error:
        - type: webhook
          url: "http://127.0.0.1:{port}/hook/${{S_HOOK}}"
          headers: {{ X-Sign: "${{S_HOOK_HEADER}}" }}
        - {{ notify: ops }}
        - {{ type: command, command: ["{python}", say.py, quiet, "${{S_HOOK_ARGUMENT}}"], env: [RECEIVED] }}
agents:
  - name: scout
    runtime: command
    command: ["{python}", say.py, stdin, "${{S_AGENT_ARGUMENT}}"]
    env: {{ RECEIVED: "{received}" }}
    system_prompt: "${{S_SYSTEM}}"
    mcp_servers: {{ files: {{ command: x, args: ["${{S_MCP}}"] }} }}
    budget: {{ runs_per_day: 24 }}
    schedules:
      look:
        every: 1h
        prompt: "look ${{S_AGENT_PROMPT}}"
        work_source: {{ type: command, list: ["{python}", say.py, list, "${{S_WORK}}"], env: [RECEIVED] }}
"""
RUNS = ("probe", "fine", "talker", "scout/look")
RECEIVED_BY_PROGRAMS = (
    "argument",
    "env",
    "prompt",
    "precheck",
    "agent_argument",
    "agent_prompt",
    "hook_argument",
    "work",
)
RECEIVED_BY_SERVERS = ("url", "query", "header", "body", "ok_header", "dotenv", "hook", "notify")
COMMANDS = (
    *(
        "list --json",
        "show probe --json",
        "show talker --json",
        "show scout/look --json",
        "runs --json",
        "beats --json",
    ),
    *("changes --json", "explain talker --json", "logs talker", "logs probe", "logs scout/look"),
    *(
        "status --json",
        "work --json",
        "notify --json",
        "config show --json",
        "export",
        "apply --dry-run --json",
        "doctor",
    ),
)
PATHS = (
    *(
        "targets",
        "schedules",
        "runs",
        "beats",
        "changes",
        "work",
        "schedules/talker/default",
        "config",
        "notifications",
    ),
    *("schedules/probe/default", "schedules/scout/look"),
)


class Outside:
    """A server beside the test that keeps what it got, and answers with all of it, as careless programs do."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.arrived = Condition()

    def wait_for(self, text: str) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: any(text in each for each in self.requests), WAIT_S), text

    @property
    def text(self) -> str:
        return "\n".join(self.requests)


@pytest.fixture
def outside() -> Iterator[tuple[Outside, int]]:
    kept = Outside()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            text = f"{self.path}\n{self.headers}\n{body}"
            with kept.arrived:
                kept.requests.append(text)
                kept.arrived.notify_all()
            answer = json.dumps({"you_sent": text}).encode()
            self.send_response(500 if self.path.startswith("/fail") else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield kept, server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
        return
    with new_database(postgres) as url:
        yield url


@pytest.fixture
def fleet(tmp_path: Path, outside: tuple[Outside, int], store: str, monkeypatch: pytest.MonkeyPatch) -> RunningFleet:
    for name in FROM_ENVIRONMENT:
        monkeypatch.setenv(f"S_{name}", f"canary-{name.lower()}-4711")
    received = tmp_path / "received.txt"
    monkeypatch.setenv("RECEIVED", str(received))
    monkeypatch.delenv("HERDBEAT_NO_SERVER")
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / ".env").write_text(DOTENV, encoding="utf-8")
    (folder / "say.py").write_text(SCRIPT, encoding="utf-8")
    running = RunningFleet(folder)
    stored = f'store: "{store}"' if store else ""
    running.write(FLEET.format(port=outside[1], python=sys.executable, received=received, store=stored))
    return running


def read_kept(folder: Path, store: str) -> dict[str, str]:
    """Return all that herdbeat has written: every file of the state folder, and every row of a database."""
    kept = {
        str(path.relative_to(folder)): path.read_bytes().decode("utf-8", "replace")
        for path in (folder / ".herdbeat").rglob("*")
        if path.is_file()
    }
    if store:
        with closing(psycopg.connect(store, autocommit=True)) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            ).fetchall()
            for (table,) in tables:
                query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table))
                kept[table] = "\n".join(row[0] for row in connection.execute(query).fetchall())
    return kept


def read_events(feed: EventFeed) -> tuple[str, str]:
    """Return what the node tells until all runs have ended and the server is there, and the address of that."""
    assert feed.process.stdout is not None
    text, url, runs = "", "", 0
    for line in feed.process.stdout:
        text += line
        event = json.loads(line)
        url = str(event["url"]).rstrip("/") if event["event"] == "server_ready" else url
        runs += event["event"] == "run_finished"
        if url and runs == len(RUNS):
            return text, url
    raise AssertionError(text)


def find_leaks(texts: dict[str, str]) -> dict[str, list[str]]:
    return {name: sorted(set(CANARY.findall(text))) for name, text in texts.items() if CANARY.search(text)}


def list_own_arguments(pid: int) -> dict[str, str]:
    """Return the command lines of a node and of the processes of herdbeat below it, as `ps` shows them."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and (each / "stat").exists():
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            if int(each.name) == pid or int(parent) == pid:
                words = (each / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                if "say.py" not in words:
                    found[each.name] = " ".join(words)
    return found


def ask_server(url: str, path: str) -> str:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}", timeout=WAIT_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_the_value_of_a_variable_is_in_nothing_that_herdbeat_keeps_or_shows(
    fleet: RunningFleet, outside: tuple[Outside, int], store: str, tmp_path: Path
) -> None:
    server = outside[0]
    printed: dict[str, str] = {}
    with fleet.up("--port", "0", *(["--apply"] if store else [])) as feed:
        printed["events"], url = read_events(feed)
        for name in ("hook", "notify"):
            server.wait_for(f"canary-{name}-4711")
        printed |= {words: _print(fleet, words) for words in COMMANDS}
        printed |= {path: ask_server(url, path) for path in PATHS}
        printed |= list_own_arguments(feed.process.pid)
        running = read_kept(fleet.folder, store)
        fleet.call("down")
        feed.process.wait(WAIT_S)

    kept = read_kept(fleet.folder, store)
    received = (tmp_path / "received.txt").read_text(encoding="utf-8")
    assert find_leaks(printed) == {}
    assert find_leaks(running) == {}
    assert find_leaks(kept) == {}
    assert [name for name in RECEIVED_BY_PROGRAMS if f"canary-{name}-4711" not in received] == []
    assert [name for name in RECEIVED_BY_SERVERS if f"canary-{name}-4711" not in server.text] == []
    assert "${HOME}" in received
    assert "Bearer ${S_HEADER}" in printed["export"]
    assert "***" in printed["logs talker"]


def _print(fleet: RunningFleet, words: str) -> str:
    answer = fleet.call(*words.split())
    return answer.stdout + answer.stderr


def test_a_ledger_of_an_older_version_loses_its_values_with_the_next_apply(fleet: RunningFleet, store: str) -> None:
    written = (fleet.folder / "herdbeat.yaml").read_text(encoding="utf-8")
    environ = {**os.environ, "S_DOTENV": "canary-dotenv-4711"}
    fleet.write(re.sub(r"(?<!\$)\$\{(\w+)\}", lambda match: environ[match[1]], written))
    fleet.call("apply")
    _store_old_secrets(fleet.folder, store)
    assert len(find_leaks(read_kept(fleet.folder, store))) > 0
    fleet.write(written)

    answer = fleet.call("apply")

    assert "changed" in answer.stderr
    assert find_leaks(read_kept(fleet.folder, store)) == {}


def _store_old_secrets(folder: Path, store: str) -> None:
    """Add the list of values that older versions kept beside the specs."""
    statement = "INSERT INTO meta (key, value) VALUES ('secrets', '[\"canary-url-4711\", \"canary-body-4711\"]')"
    if store:
        with closing(psycopg.connect(store, autocommit=True)) as connection:
            connection.execute(statement)
        return
    with closing(sqlite3.connect(folder / ".herdbeat" / "herdbeat.db", isolation_level=None)) as database:
        database.execute(statement)
