"""Endpoints that respond: what is sent, what is stored, what counts as a success."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from tests.runners.http.conftest import Logged
from tests.support.http_endpoints import respond, respond_raw, serve_endpoint
from tests.support.runner_jobs import NOON, make_job

from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import EndpointSpec
from herdbeat.runners.base import Unstarted, find_unstarted
from herdbeat.runners.http.client import EndpointCaller
from herdbeat.runners.http.egress import AddrInfos
from herdbeat.runners.settings import RunnerSettings
from herdbeat.testing.clock import FakeClock


async def test_a_json_answer_is_stored_with_its_run_and_leaves_no_log(calls: EndpointCaller, logged: Logged) -> None:
    async with serve_endpoint(respond('{"queue_depth": 7}', Content_Type="application/json")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get("/queue")))

    assert (outcome.status, outcome.code, outcome.response) == (RunStatus.SUCCEEDED, 200, {"queue_depth": 7})
    assert (outcome.error, outcome.summary, str(logged)) == ("", "", "")
    head = endpoint.requests[0]
    assert head.startswith("GET /queue HTTP/1.1\r\n")
    assert "\r\nIdempotency-Key: scribe/hourly:cron:2026-03-02T12:00:00Z\r\n" in head


async def test_a_text_is_kept_in_the_log(calls: EndpointCaller, logged: Logged) -> None:
    async with serve_endpoint(respond("all is well\n", Content_Type="text/plain")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, outcome.response, outcome.output) == (RunStatus.SUCCEEDED, None, "all is well\n")
    assert "HTTP 200 OK · Content-Type: text/plain · Content-Length: 12" in str(logged)
    assert "all is well" in str(logged)


async def test_method_headers_and_body_are_those_of_the_file(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond(status="204 No Content")) as endpoint:
        spec = EndpointSpec(
            url=endpoint.url("/drain"), method="POST", headers={"X-Team": "core"}, body={"say": "{prompt}"}
        )
        outcome = await calls.run(make_job(spec, prompt="Drain it."))

    assert (outcome.status, outcome.code) == (RunStatus.SUCCEEDED, 204)
    head, _, body = endpoint.requests[0].partition("\r\n\r\n")
    assert head.startswith("POST /drain HTTP/1.1")
    assert "X-Team: core" in head
    assert "Content-Type: application/json" in head
    assert json.loads(body) == {"say": "Drain it."}


@pytest.mark.parametrize(
    ("status", "body", "content_type", "error"),
    [
        (
            "503 Service Unavailable",
            "the queue is down\nsorry",
            "text/plain",
            "503 Service Unavailable: the queue is down",
        ),
        ("500 Internal Server Error", "<html>oh</html>", "text/html", "500 Internal Server Error"),
        ("422 Odd", '{"detail": "no such queue"}', "application/json", "422 Odd: no such queue"),
        ("404 ", "", "text/plain", "404 Not Found"),
        ("799 ", "", "text/plain", "799"),
        ("304 Not Modified", "", "text/plain", "304 Not Modified"),
    ],
)
async def test_any_other_status_is_a_failure_with_its_reason(
    calls: EndpointCaller, logged: Logged, status: str, body: str, content_type: str, error: str
) -> None:
    async with serve_endpoint(respond(body, status, Content_Type=content_type)) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, outcome.error, outcome.code) == (RunStatus.FAILED, error, int(status[:3]))
    assert body.splitlines()[:1] == [] or body.splitlines()[0] in str(logged).replace('\\"', '"')


async def test_an_answer_to_head_has_no_body(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond_raw("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")) as endpoint:
        outcome = await calls.run(make_job(replace(endpoint.get(), method="HEAD")))

    assert (outcome.status, outcome.output) == (RunStatus.SUCCEEDED, "")


async def test_json_that_is_too_long_to_store_is_in_the_log_and_noted(calls: EndpointCaller, logged: Logged) -> None:
    body = json.dumps(["item"] * 2_000)
    async with serve_endpoint(respond(body, Content_Type="application/json")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert (outcome.status, outcome.response) == (RunStatus.SUCCEEDED, None)
    assert outcome.summary == ("The body is only in the run log: it has 16000 bytes; at most 10000 are stored as JSON.")
    assert body in str(logged).replace('\\"', '"')


async def test_a_secret_that_an_endpoint_repeats_is_not_stored(calls: EndpointCaller, logged: Logged) -> None:
    echo = '{"headers": {"Authorization": "Bearer hush-hush-hush"}, "token": "hush-hush-hush"}'
    async with serve_endpoint(respond(echo, "500 Oh", Content_Type="application/json")) as endpoint:
        spec = replace(endpoint.get(), headers={"Authorization": "Bearer hush-hush-hush"})
        outcome = await calls.run(make_job(spec))

    assert "Authorization: Bearer hush-hush-hush" in endpoint.requests[0]
    assert outcome.response == {"headers": {"Authorization": "***"}, "token": "***"}
    assert "hush" not in f"{outcome}{logged}"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"healthy": true}', ""),
        ('{"healthy": false}', "not ok: response.healthy = false (ok: response.healthy)"),
        ("{}", "not ok: response.healthy is missing (ok: response.healthy)"),
        ("<html>", "not ok: response.healthy is missing (ok: response.healthy)"),
        ('{"healthy": "yes"}', 'not ok: response.healthy = "yes" (ok: response.healthy)'),
    ],
)
async def test_ok_decides_whether_a_2xx_response_is_a_success(calls: EndpointCaller, body: str, error: str) -> None:
    async with serve_endpoint(respond(body)) as endpoint:
        outcome = await calls.run(make_job(replace(endpoint.get(), ok="response.healthy")))

    assert (outcome.error, outcome.code) == (error, 200)
    assert outcome.status is (RunStatus.FAILED if error else RunStatus.SUCCEEDED)


async def test_ok_makes_no_success_of_a_failure(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("{}", "503 Oh")) as endpoint:
        outcome = await calls.run(make_job(replace(endpoint.get(), ok="true")))

    assert outcome.error == "503 Oh"


async def test_cookies_of_one_endpoint_are_not_sent_to_another(calls: EndpointCaller) -> None:
    async with serve_endpoint(respond("{}", Set_Cookie="session=1; Path=/")) as endpoint:
        for _ in range(2):
            await calls.run(make_job(endpoint.get()))

    assert [("cookie" in request.lower()) for request in endpoint.requests] == [False, False]


async def test_a_proxy_in_the_environment_is_not_used(calls: EndpointCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serve_endpoint(respond("{}")) as endpoint:
        outcome = await calls.run(make_job(endpoint.get()))

    assert outcome.status is RunStatus.SUCCEEDED


async def test_a_redirect_is_followed_and_noted(calls: EndpointCaller) -> None:
    async with (
        serve_endpoint(respond('{"at": "home"}')) as home,
        serve_endpoint(respond("moved", "302 Found", Location=home.url("/new"))) as old,
    ):
        outcome = await calls.run(make_job(replace(old.get(), headers={"Authorization": "Bearer hush-hush"})))

    assert (outcome.response, outcome.summary) == ({"at": "home"}, "The request was redirected once.")
    assert "Authorization" in old.requests[0]
    assert "Authorization" not in home.requests[0]
    assert home.requests[0].startswith("GET /new ")


async def test_a_post_never_follows_a_redirect(calls: EndpointCaller) -> None:
    async with (
        serve_endpoint(respond("{}")) as home,
        serve_endpoint(respond("", "307 Temporary Redirect", Location=home.url())) as old,
    ):
        outcome = await calls.run(make_job(replace(old.get(), method="POST", body={})))

    assert (outcome.status, outcome.code, home.requests) == (RunStatus.FAILED, 307, [])
    assert outcome.error == ("307 Temporary Redirect: redirects are followed for GET and HEAD only. Use the final URL.")


async def test_a_run_that_ended_before_its_request_was_sent_says_so(
    open_settings: RunnerSettings, logged: Logged
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def look_up(host: str, port: int) -> AddrInfos:
        asked.set()
        answer.wait(60)
        raise OSError(f"{host}:{port}")

    calls = EndpointCaller(open_settings, FakeClock(NOON), look_up)
    task = asyncio.create_task(calls.run(make_job(EndpointSpec(url="http://silent.invalid/"))))
    await asyncio.to_thread(asked.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    answer.set()
    calls.close()

    assert find_unstarted(raised.value) == Unstarted("its request was sent")
    assert "cancelled: no request was sent: there was no connection to silent.invalid" in str(logged)
