"""The dashboard over a ledger that no node runs, on Thursday 26 March 2026, 13:04 UTC: that of the server's tests."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.server.conftest import ServedFleet
from tests.support.asgi_client import AsgiClient, AsgiResponse

from herdbeat.web import create_web_app


class ShownFleet(ServedFleet):
    """A fleet with its pages."""

    def __init__(self, folder: Path, server: str = "") -> None:
        super().__init__(folder, server)
        self.app = create_web_app(self.gateway)

    def submit(self, path: str, client: AsgiClient | None = None, /, **fields: object) -> AsgiResponse:
        """Send a form as a browser does."""
        pairs = [
            (name, each) for name, value in fields.items() for each in (value if isinstance(value, list) else [value])
        ]
        headers = {"content-type": "application/x-www-form-urlencoded"}
        return (client or self.client()).send("POST", path, urlencode(pairs).encode(), headers)

    def follow(self, answer: AsgiResponse) -> AsgiResponse:
        """Open the page that a form leads to, with the cookie that it set."""
        cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return self.client().get(answer.headers["location"], cookie=cookie)


def find_notice_key(page: AsgiResponse) -> str:
    found = re.search(r'name="notice" value="([^"]+)"', page.text)
    assert found is not None, "the page offers no undo"
    return found[1]


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Callable[[str], ShownFleet]]:
    """Show a fleet whose file has this `server:` line."""
    opened: list[ShownFleet] = []

    def start(server: str) -> ShownFleet:
        opened.append(ShownFleet(tmp_path, server))
        return opened[-1]

    yield start
    for each in opened:
        each.gateway.close()


@pytest.fixture
def shown(show: Callable[[str], ShownFleet]) -> ShownFleet:
    return show("")
