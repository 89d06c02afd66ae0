"""What is sent to an endpoint, and which parts follow a redirect."""

import json

import pytest
from yarl import URL

from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.http.request import HttpRequest, build_request

KEY = "api/hourly:cron:2026-03-02T12:00:00Z"


def test_a_request_names_its_caller_and_its_beat() -> None:
    request = build_request(EndpointSpec(url="https://api.example.com/queue"), "", KEY)

    assert (request.method, request.host, request.body) == ("GET", "api.example.com", None)
    assert request.headers["User-Agent"].startswith("herdbeat/")
    assert request.headers["Idempotency-Key"] == KEY


def test_headers_of_the_file_override_defaults_but_not_the_beat_key() -> None:
    written = {"user-agent": "ours", "content-type": "application/x+json", "idempotency-key": "always the same"}

    request = build_request(EndpointSpec(url="https://example.com", headers=written, body={}), "", KEY)

    assert request.headers == {"user-agent": "ours", "content-type": "application/x+json", "Idempotency-Key": KEY}


def test_the_file_cannot_set_framing_headers() -> None:
    """A Content-Length of 7 for a body of 2 bytes made the endpoint wait until the deadline."""
    written = {"Content-Length": "7", "transfer-encoding": "chunked", "Connection": "upgrade", "Host": "other.example"}

    request = build_request(EndpointSpec(url="https://example.com", headers=written), "", KEY)

    assert sorted(request.headers) == ["Host", "Idempotency-Key", "User-Agent"]


def test_a_delivery_id_from_outside_cannot_break_out_of_its_header() -> None:
    request = build_request(EndpointSpec(url="https://example.com"), "", "a/b:webhook:1\r\nX: ü")

    assert request.headers["Idempotency-Key"] == "a/b:webhook:1%0D%0AX:%20%C3%BC"


def test_the_prompt_replaces_its_placeholder_in_one_pass() -> None:
    body = {"text": "Do: {prompt}", "list": ["{prompt}", 1], "plain": True}

    request = build_request(EndpointSpec(url="https://example.com", method="POST", body=body), 'say "{prompt}"', KEY)

    assert request.body is not None
    filled = 'say "{prompt}"'
    assert json.loads(request.body) == {"text": f"Do: {filled}", "list": [filled, 1], "plain": True}


@pytest.mark.parametrize("body", [{"x": float("nan")}, {"x": float("inf")}])
def test_a_body_that_json_cannot_express_is_rejected(body: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        build_request(EndpointSpec(url="https://example.com", body=body), "", KEY)


SECRET = {"Authorization": "Bearer abc", "Cookie": "a=b", "X-Internal-Pass": "abc", "Accept": "text/plain"}


@pytest.mark.parametrize(
    "location", ["/there", "https://example.com:443/there", "there?x=1", "https://EXAMPLE.com/there"]
)
def test_a_redirect_within_the_origin_keeps_every_header(location: str) -> None:
    request = HttpRequest(method="GET", url=URL("https://example.com/here"), headers=SECRET)

    assert request.follow_redirect(location).headers == SECRET


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/there",
        "//evil.example/there",
        "http://example.com/there",
        "https://example.com:8443/there",
        "https://example.com.evil.example/",
        "https://example.com@evil.example/",
    ],
)
def test_a_redirect_to_another_origin_drops_secrets(location: str) -> None:
    request = HttpRequest(method="GET", url=URL("https://user:pass@example.com/here"), headers=SECRET)

    followed = request.follow_redirect(location)

    assert followed.headers == {"Accept": "text/plain"}
    assert followed.url.user is None


@pytest.mark.parametrize("location", ["ftp://example.com/x", "file:///etc/passwd", "http://", "http://[::1", "data:,x"])
def test_a_redirect_to_another_scheme_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        HttpRequest(method="GET", url=URL("https://example.com/"), headers={}).follow_redirect(location)


def test_the_repr_has_neither_url_nor_headers() -> None:
    request = HttpRequest(method="GET", url=URL("https://example.com/?key=hush"), headers={"Authorization": "hush"})

    assert "hush" not in repr(request)


def test_what_is_sent_has_the_defaults_of_every_client() -> None:
    request = build_request(EndpointSpec(url="http://example.com:8080/a b?q=ü#top"), "", KEY)

    assert request.to_bytes().decode().split("\r\n") == [
        "GET /a%20b?q=%C3%BC HTTP/1.1",
        "Host: example.com:8080",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate",
        request_agent(request),
        f"Idempotency-Key: {KEY}",
        "Connection: close",
        "",
        "",
    ]


def request_agent(request: HttpRequest) -> str:
    return f"User-Agent: {request.headers['User-Agent']}"


def test_headers_of_the_file_replace_defaults_in_any_spelling() -> None:
    written = {"host": "other.example", "ACCEPT": "text/plain", "accept-encoding": "identity"}

    sent = build_request(EndpointSpec(url="http://example.com", headers=written), "", KEY).to_bytes().decode().lower()

    assert "host: other.example\r\naccept: text/plain\r\naccept-encoding: identity\r\n" in sent
    assert sent.count("host:") == sent.count("accept:") == sent.count("accept-encoding:") == 1


@pytest.mark.parametrize(("method", "length"), [("POST", "0"), ("DELETE", "0"), ("GET", None), ("HEAD", None)])
def test_a_request_without_a_body_says_so_where_one_is_expected(method: str, length: str | None) -> None:
    sent = build_request(EndpointSpec(url="http://example.com", method=method), "", KEY).to_bytes().decode()

    assert (f"\r\nContent-Length: {length}\r\n" in sent) is (length is not None)


def test_the_user_of_a_url_is_sent_as_basic_authorization_and_not_in_the_path() -> None:
    sent = build_request(EndpointSpec(url="http://me:h%20sh@example.com/x"), "", KEY).to_bytes().decode()

    assert sent.startswith("GET /x HTTP/1.1\r\nHost: example.com\r\n")
    assert "\r\nAuthorization: Basic bWU6aCBzaA==\r\n" in sent
