"""Attacks on a live server over real HTTP, as a browser, a script or a proxy would send them."""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.support.running_fleet import RunningFleet

FLEET = """\
version: 1
timezone: UTC
commands:
  - { name: note, command: [sh, -c, "echo ran >> notes.txt"], cron: "0 3 1 1 *" }
"""
RUN = "/api/v1/schedules/note/default/runs"
TIMEOUT_S = 60


class Answered(NamedTuple):
    status: int
    code: str


class LiveTarget(NamedTuple):
    """A running fleet with its address and one token of each scope."""

    running: RunningFleet
    folder: Path
    url: str
    tokens: dict[str, str]

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Answered:
        address = urlsplit(self.url)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)
        with closing(connection):
            connection.request(method, path, body or None, named)
            answer = connection.getresponse()
            content = answer.read()
        is_problem = answer.getheader("Content-Type", "").startswith("application/problem")
        return Answered(answer.status, json.loads(content)["code"] if is_problem else "")

    def bearer(self, scope: str) -> str:
        return f"Bearer {self.tokens[scope]}"

    @property
    def has_run(self) -> bool:
        """Ask the file system, not the server."""
        return (self.folder / "notes.txt").exists()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTarget]:
    folder = tmp_path_factory.mktemp("attacked")
    before = os.environ.pop("HERDBEAT_NO_SERVER", None)
    running = RunningFleet(folder)
    running.write(FLEET)
    try:
        with running.up("--port", "0") as feed:
            url = str(feed.until("server_ready")["url"]).rstrip("/")
            tokens = {
                scope: running.call("token", "create", scope, "--scope", scope).stdout.strip()
                for scope in ("read", "operate", "admin")
            }
            yield LiveTarget(running, folder, url, tokens)
    finally:
        if before is not None:
            os.environ["HERDBEAT_NO_SERVER"] = before


JSON = {"Content_Type": "application/json"}
FORM = {"Content_Type": "application/x-www-form-urlencoded"}


def test_a_page_of_another_origin_starts_nothing(live: LiveTarget) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert live.send("POST", RUN, "{}", Origin=origin, **JSON) == (403, "cross_site")
    assert live.send("POST", RUN, "{}", **JSON).status == 403
    assert not live.has_run


def test_a_name_that_was_rebound_to_this_machine_reads_nothing(live: LiveTarget) -> None:
    assert live.send("GET", "/api/v1/status", Host="evil.example").status in (400, 401, 403, 421)


def test_a_form_of_another_page_starts_nothing(live: LiveTarget) -> None:
    answer = live.send("POST", RUN, "reason=x", Origin="https://evil.example", Sec_Fetch_Site="cross-site", **FORM)

    assert answer.status in (403, 415, 422)
    assert not live.has_run


def test_a_token_does_no_more_than_its_scope(live: LiveTarget) -> None:
    read, operate = ({"Authorization": live.bearer(each)} for each in ("read", "operate"))

    assert live.send("POST", RUN, "{}", **JSON, **read) == (403, "forbidden")
    assert live.send("POST", "/api/v1/tokens", '{"name": "x", "scope": "admin"}', **JSON, **operate).status == 403
    assert live.send("POST", RUN, '{"prompt": "rm -rf"}', **JSON, **operate) == (403, "forbidden")
    assert live.send("GET", "/api/v1/config", **operate).status == 403
    assert not live.has_run


@pytest.mark.parametrize(
    "body",
    [
        {"name": "evil", "url": "https://example.com/", "command": ["touch", "owned"], "every": "1s"},
        {"name": "evil", "url": "https://example.com/", "every": "1s", "precheck": ["touch", "owned"]},
        {"name": "evil", "url": "https://example.com/${HOME}", "every": "1s"},
    ],
)
def test_no_token_creates_a_program(live: LiveTarget, body: dict[str, object]) -> None:
    answer = live.send("POST", "/api/v1/targets", json.dumps(body), **JSON, Authorization=live.bearer("admin"))

    assert answer.status in (403, 422)
    assert not list(live.folder.glob("owned*"))


def test_the_header_of_a_proxy_that_nobody_named_is_nobody(live: LiveTarget) -> None:
    headers = {"X_Forwarded_Email": "boss@example.com", "X_Forwarded_For": "10.0.0.1"}

    assert live.send("GET", "/api/v1/status", **headers) == (401, "unauthenticated")


def read_command_lines() -> Iterator[bytes]:
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # the process has ended
            yield each.read_bytes()


def test_no_token_is_in_the_ledger_the_logs_or_the_process_table(live: LiveTarget) -> None:
    live.send("GET", "/api/v1/status", Authorization=live.bearer("read"))
    live.send("GET", f"/api/v1/runs?schedule={live.tokens['read']}", Authorization=live.bearer("read"))

    secrets = [text.encode() for text in live.tokens.values()]
    files = [each for each in live.folder.rglob("*") if each.is_file()]
    holders = [each.name for each in files if any(text in each.read_bytes() for text in secrets)]
    command_lines = list(read_command_lines())

    assert holders == []
    assert not any(text in line for line in command_lines for text in secrets)
