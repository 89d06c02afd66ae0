"""A receiver of messages beside the test, with a log of its own: what arrived, by id."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class WebhookReceiver:
    """What has arrived, in order. `status` is what it answers; messages that it refuses are in the log, too."""

    port: int = 0
    status: int = 200
    log: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """Status of the answer, id of the message, body."""
    pings: int = 0
    """Calls without a message, as those of a dead-man ping."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    def count_taken(self) -> Counter[str]:
        """Return how often each message was taken, by its id."""
        return Counter(message_id for status, message_id, _ in self.log if status == 200)

    def bodies(self) -> list[dict[str, Any]]:
        """Return what was taken, each message once."""
        found = {message_id: body for status, message_id, body in self.log if status == 200}
        return list(found.values())


@contextmanager
def receive_webhooks() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.status
            receiver.log.append((status, self.headers.get("webhook-id", ""), json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def do_GET(self) -> None:
            receiver.pings += 1
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, name="receiver")
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
