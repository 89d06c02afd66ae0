"""The model server of the system tests: real agent CLIs call it on loopback, and tests read its log of requests.

The log is what the world outside of herdbeat has seen: who asked, with which key and prompt, and whether the client
was still there when the answer was written.
"""

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.system.model_apis import HttpReply, ModelApi, find_api
from tests.system.model_script import ScriptedFailure, ScriptedReply, decide_reply

BAD_KEY = "sk-refused-by-the-model-server"
"""Requests with this key are refused."""
WAIT_S = 90
_KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key", "api-key")


@dataclass(slots=True, kw_only=True)
class ModelRequest:
    """One request for an answer. `status` is None while none was given; `client_gone`: the client did not wait."""

    path: str
    key: str
    user_agent: str
    model: str
    prompts: tuple[str, ...]
    body: dict[str, Any]
    status: int | None = None
    client_gone: bool = False

    @property
    def is_waiting(self) -> bool:
        return self.status is None and not self.client_gone

    def has_prompt(self, text: str) -> bool:
        return any(text in prompt for prompt in self.prompts)


class ModelServer:
    """A running server. `requests` is the log; `limit_key` and `lift_limit` act as the provider of the model would."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[ModelRequest] = []
        self._limits: dict[str, ScriptedFailure] = {}
        self._answers: dict[str, str] = {}
        self._closing = threading.Event()
        self._http = _QuietServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> list[ModelRequest]:
        with self._changed:
            return list(self._requests)

    def count(self, text: str) -> int:
        """Return how many requests have a prompt with this text."""
        return sum(each.has_prompt(text) for each in self.requests)

    def wait_for(self, condition: Callable[[list[ModelRequest]], bool], timeout_s: float = WAIT_S) -> None:
        """Return as soon as the log fulfils the condition. Raises AssertionError with the log if it never does."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self._requests), timeout_s):
                seen = [(each.path, each.status, each.client_gone, each.prompts[-1:]) for each in self._requests]
                raise AssertionError(f"no such requests within {timeout_s} s: {seen}")

    def wait_until_asked(self, text: str) -> None:
        """Return as soon as a request with this text waits for its answer."""
        self.wait_for(lambda log: any(each.is_waiting and each.has_prompt(text) for each in log))

    def limit_key(self, key: str, *, resets_in_s: int, is_usage_limit: bool = False) -> None:
        """Answer requests with this key by 429, until `lift_limit`."""
        self._limits[key] = ScriptedFailure(status=429, resets_in_s=resets_in_s, is_usage_limit=is_usage_limit)

    def answer_with(self, text: str, prompt: str) -> None:
        """Answer prompts that contain the second text by the first: prompts that no test writes have no directives."""
        self._answers[prompt] = text

    def find_answer(self, prompts: Sequence[str]) -> ScriptedReply | None:
        found = (text for marker, text in self._answers.items() if any(marker in each for each in prompts))
        return next((ScriptedReply(text=text) for text in found), None)

    def lift_limit(self, key: str) -> None:
        del self._limits[key]

    def find_failure(self, key: str) -> ScriptedFailure | None:
        return ScriptedFailure(status=401) if key == BAD_KEY else self._limits.get(key)

    def note(self, request: ModelRequest) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def note_end(self, request: ModelRequest, *, status: int | None = None) -> None:
        """Write down how the request ended; without a status, the client has gone away."""
        with self._changed:
            request.status = status
            request.client_gone = status is None
            self._changed.notify_all()

    def wait_for_hangup(self, connection: socket.socket) -> bool:
        """Return True when the client closes the connection, False when the server closes first."""
        while not self._closing.is_set():
            readable, _, _ = select.select([connection], [], [], 0.05)
            if readable and not _peek(connection):
                return True
        return False

    def serve(self) -> None:
        self._http.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run a server on a free port of loopback."""
    server = ModelServer()
    thread = threading.Thread(target=server.serve, name="model-server")
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


class _QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up, which is what killed CLIs do."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _peek(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return b""


def _handler_of(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_ModelHandler):
        model = server

    return Handler


class _ModelHandler(BaseHTTPRequestHandler):
    """Reads one request, asks the script, writes the reply."""

    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Write nothing: the log of requests has it."""

    def do_HEAD(self) -> None:
        self._send(HttpReply())

    def do_GET(self) -> None:
        self._send(HttpReply(body={"data": [], "models": [], "object": "list"}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.split("?")[0]
        api = find_api(path)
        if path.endswith(("/count_tokens", ":countTokens")):
            self._send(HttpReply(body={"input_tokens": 25, "totalTokens": 25}))
        elif api is None:
            self._send(HttpReply(status=404, body={"error": {"type": "not_found_error", "message": path}}))
        else:
            self._answer(api, path, body)

    def _answer(self, api: ModelApi, path: str, body: dict[str, Any]) -> None:
        conversation = api.read(body)
        request = ModelRequest(
            path=path,
            key=self._read_key(),
            user_agent=self.headers.get("User-Agent", ""),
            model=str(body.get("model", "")),
            prompts=tuple(conversation.prompts),
            body=body,
        )
        self.model.note(request)
        reply = self.model.find_answer(request.prompts) or decide_reply(conversation)
        failure = self.model.find_failure(request.key) or reply.failure
        if reply.hangs and failure is None:
            self.close_connection = True
            if self.model.wait_for_hangup(self.connection):
                self.model.note_end(request)
            return
        answer = api.write_failure(failure, int(time.time())) if failure else api.write(path, body, reply)
        try:
            self._send(answer)
        except ConnectionError:
            self.model.note_end(request)
        else:
            self.model.note_end(request, status=answer.status)

    def _read_key(self) -> str:
        key = next((value for name in _KEY_HEADERS if (value := self.headers.get(name))), "")
        return key.removeprefix("Bearer ")

    def _send(self, reply: HttpReply) -> None:
        data = "".join(_to_event(name, each) for name, each in reply.events) or json.dumps(reply.body)
        kind = "text/event-stream" if reply.events else "application/json"
        self.send_response(reply.status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data.encode())), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data.encode())


def _to_event(name: str, data: dict[str, Any]) -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"
