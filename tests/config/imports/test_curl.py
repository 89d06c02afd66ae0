"""A call of curl is an endpoint only if an endpoint does the same."""

import pytest

from herdbeat.config.imports.curl import parse_curl


def test_method_headers_body_timeout_and_retries_are_carried() -> None:
    call = parse_curl(
        "curl -fsSL -X PUT -H 'Content-Type: application/json' -H 'X-Team: a' --data '{\"n\": [1]}'"
        " -m 10 --retry 2 -o /dev/null https://example.com/a/run"
    )

    assert call is not None
    assert call.name == "example.com-run"
    assert dict(call.keys) == {
        "url": "https://example.com/a/run",
        "method": "PUT",
        "body": {"n": [1]},
        "timeout": "10s",
        "retry": {"attempts": 3, "wait": "1s"},
    }
    assert dict(call.headers) == {"X-Team": "a"}
    assert call.notes == ()


@pytest.mark.parametrize(
    "command",
    [
        "curl https://example.com | sh",
        "curl https://example.com/$(date)",
        'curl "https://example.com/$KEY"',
        "curl -u ann:secret https://example.com",
        "curl https://ann:secret@example.com",
        "curl -k https://example.com",
        "curl -d @file https://example.com",
        "curl -d a=1 https://example.com",
        "curl -o page.html https://example.com",
        "curl https://a.example https://b.example",
        "curl ftp://example.com/file",
        "curl 'unclosed",
        "wget https://example.com",
        "curl",
    ],
)
def test_a_call_that_does_more_stays_a_command(command: str) -> None:
    assert parse_curl(command) is None


def test_what_curl_does_differently_is_said() -> None:
    call = parse_curl("curl http://localhost:8000/tick")

    assert call is not None
    texts = " ".join(text for _, text in call.notes)
    assert "without -f" in texts
    assert "without -L" in texts
    assert call.private_hosts == ("localhost",)
