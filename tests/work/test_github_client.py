"""Requests to GitHub under limits, faults and odd answers; tokens of people and of Apps."""

import asyncio
import base64
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_github import (
    INSTALLATION_TOKEN,
    NOW,
    REPO,
    TOKEN,
    FakeGitHub,
    serve_github,
)
from tests.work.conftest import MakeSource

from herdbeat.domain.work_item import Report
from herdbeat.testing import FakeClock
from herdbeat.work.base import ClaimStatus, FailureCause, Sleep, WorkClaim, WorkSourceFailed, build_item
from herdbeat.work.github import GitHubSettings, GitHubSource
from herdbeat.work.github_client import GitHubClient
from herdbeat.work.github_tokens import AppToken, PersonalToken, build_jwt
from herdbeat.work.http import HttpTransport

SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
PRIMARY = {"message": "API rate limit exceeded for user ID 1234."}
ITEM = build_item("1", title="")


def waited(clock: FakeClock) -> float:
    return (clock.now() - NOW).total_seconds()


@pytest.mark.parametrize("status", [403, 429])
async def test_a_secondary_limit_is_waited_for_as_long_as_it_says(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock, status: int
) -> None:
    github.fail("GET", "/issues?", status, headers={"Retry-After": "30"}, body=SECONDARY)

    await make_source().list()

    assert waited(clock) == 30
    assert len(github.log) == 2


@pytest.mark.parametrize("status", [403, 429])
async def test_a_primary_limit_lasts_until_its_reset_on_githubs_clock(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock, status: int
) -> None:
    reset = str(int((clock.now() + timedelta(minutes=40)).timestamp()))
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    github.fail("GET", "/issues?", status, headers=headers, body=PRIMARY)
    source = make_source()

    with pytest.raises(WorkSourceFailed, match="rate limit") as caught:
        await source.list()
    with pytest.raises(WorkSourceFailed):
        await source.list()

    assert (caught.value.cause, caught.value.permanent) == (FailureCause.RATE_LIMITED, False)
    assert caught.value.retry_after == timedelta(minutes=40, seconds=1)
    assert len(github.log) == 1, "nothing is sent while the limit lasts"


async def test_the_last_request_before_a_limit_holds_the_next(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock
) -> None:
    reset = str(int((clock.now() + timedelta(seconds=20)).timestamp()))
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    github.fail("GET", "/issues?", 200, headers=headers, body=[])
    source = make_source()

    await source.list()
    await source.list()

    assert waited(clock) == 21


async def test_secondary_limits_without_a_time_are_waited_for_twice_as_long_each_time(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock
) -> None:
    github.fail("GET", "/issues?", 403, body=SECONDARY, count=2)

    with pytest.raises(WorkSourceFailed) as caught:
        await make_source().list()

    assert waited(clock) == 60
    assert caught.value.retry_after == timedelta(seconds=120)


async def test_a_missing_permission_is_no_limit_and_is_not_repeated(
    github: FakeGitHub, make_source: MakeSource
) -> None:
    github.fail("GET", "/issues?", 403, body={"message": "Resource not accessible by personal access token"})

    with pytest.raises(WorkSourceFailed, match="not accessible") as caught:
        await make_source().list()

    assert (caught.value.cause, caught.value.permanent) == (FailureCause.PERMISSION, True)
    assert "Issues: read and write" in caught.value.hint
    assert len(github.log) == 1


@pytest.mark.parametrize("status", [0, 500, 502, 504])
async def test_server_errors_and_dropped_connections_are_tried_again(
    github: FakeGitHub, make_source: MakeSource, clock: FakeClock, status: int
) -> None:
    github.add(1, "ready")
    github.fail("GET", "/issues?", status, count=2)

    items = await make_source().list()

    assert len(items) == 1
    assert len(github.requests("GET", "/issues?")) == 3


async def test_a_server_that_stays_down_is_an_error_that_may_pass(github: FakeGitHub, make_source: MakeSource) -> None:
    github.fail("GET", "/issues?", 502, body={"message": "Server Error"}, count=9)

    with pytest.raises(WorkSourceFailed, match="GitHub answered 502: Server Error") as caught:
        await make_source().list()

    assert (caught.value.cause, caught.value.permanent) == (FailureCause.UNAVAILABLE, False)
    assert len(github.log) == 4


@pytest.mark.parametrize("executes", [True, False])
@pytest.mark.parametrize("status", [0, 502])
async def test_a_comment_whose_answer_is_lost_is_written_once(
    github: FakeGitHub, make_source: MakeSource, status: int, executes: bool
) -> None:
    issue = github.add(1, "ready")
    github.fail("POST", "/comments", status, executes=executes)

    result = await make_source().claim(ITEM, "m1")

    assert result.status is ClaimStatus.CLAIMED
    assert len(issue.comments) == 1


async def test_a_limit_in_the_middle_of_a_claim_is_waited_for(github: FakeGitHub, make_source: MakeSource) -> None:
    issue = github.add(1, "ready")
    for part in ("/comments", "/labels", "/graphql"):
        github.fail("POST", part, 403, headers={"Retry-After": "5"}, body=SECONDARY)
    github.fail("DELETE", "/labels", 429, headers={"Retry-After": "5"}, body=SECONDARY)

    result = await make_source().claim(ITEM, "m1")

    assert result.status is ClaimStatus.CLAIMED
    assert (len(issue.comments), issue.labels) == (1, ["agent-working"])


async def test_writes_are_spaced(github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep) -> None:
    github.add(1, "ready")
    pauses: list[float] = []

    async def record(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    client = GitHubClient(
        transport, PersonalToken(TOKEN), clock, record, api_url=github.url, write_interval=timedelta(seconds=5)
    )
    await GitHubSource(GitHubSettings(repo=REPO), client, record).claim(ITEM, "m1")

    assert pauses == [4, 4], "each change takes a second here, and three have five between them"


async def test_a_refused_token_is_an_error_without_the_token(github: FakeGitHub, make_source: MakeSource) -> None:
    github.fail("POST", "/graphql", 401, body={"message": f"Bad credentials {TOKEN} ghp_abcdefghijklmnop"})
    github.add(1, "ready")

    with pytest.raises(WorkSourceFailed) as caught:
        await make_source().claim(ITEM, "m1")

    assert caught.value.cause is FailureCause.AUTHENTICATION
    assert "ghp_" not in f"{caught.value.message} {caught.value.hint}"


async def test_without_an_answer_the_message_names_only_the_host(clock: FakeClock, sleep: Sleep) -> None:
    async with HttpTransport() as transport:
        url = "http://127.0.0.1:9/secret-path"
        client = GitHubClient(transport, PersonalToken(TOKEN), clock, sleep, api_url=url)
        with pytest.raises(WorkSourceFailed) as caught:
            await client.get("/user")

    assert caught.value.message == "127.0.0.1 did not answer (ClientConnectorError)."


async def test_a_next_page_on_another_host_does_not_get_the_token(github: FakeGitHub, make_source: MakeSource) -> None:
    headers = {"Link": '<http://127.0.0.2:1/x?page=2>; rel="next"'}
    github.fail("GET", "/issues?", 200, headers=headers, body=[])

    with pytest.raises(WorkSourceFailed, match="on another host"):
        await make_source().list()


async def test_a_moved_repository_is_not_followed(github: FakeGitHub, make_source: MakeSource) -> None:
    headers = {"Location": f"{github.url}/repositories/1/issues"}
    github.fail("GET", "/issues?", 301, headers=headers, body={"message": "Moved Permanently"})

    with pytest.raises(WorkSourceFailed, match="has moved") as caught:
        await make_source().list()

    assert (caught.value.cause, len(github.log)) == (FailureCause.CONFIG, 1)


async def test_the_page_of_a_proxy_is_an_error_and_not_an_empty_list(
    github: FakeGitHub, make_source: MakeSource
) -> None:
    github.fail("GET", "/issues?", 200, body="<html>")
    github.fail("GET", "/issues/1", 200, body=["what"])

    with pytest.raises(WorkSourceFailed, match="is no list"):
        await make_source().list()
    with pytest.raises(WorkSourceFailed, match="is not issue #1") as caught:
        await make_source().claim(ITEM, "m1")
    assert caught.value.cause is FailureCause.INVALID_ANSWER


JUNK: list[Any] = [None, 5, "x", [], {}, [1, None, {}], {"data": 1}, {"data": {"repository": 3, "viewer": []}}]


@pytest.mark.parametrize("junk", [*JUNK, [{"number": 1, "labels": 3, "user": "x", "event": "labeled"}]], ids=repr)
@pytest.mark.parametrize(
    "place",
    [
        ("GET", "/issues?"),
        ("GET", "/issues/1"),
        ("GET", "/timeline"),
        ("GET", "/permission"),
        ("POST", "/graphql"),
        ("POST", "/comments"),
        ("POST", "/labels"),
        ("DELETE", "/labels"),
    ],
    ids=" ".join,
)
async def test_nonsense_from_the_server_is_never_a_traceback(
    github: FakeGitHub, make_source: MakeSource, place: tuple[str, str], junk: Any
) -> None:
    github.add(1, "ready")
    status = 201 if place[1] == "/comments" else 200
    github.fail(*place, status, body=junk, count=99)
    source = make_source()

    with contextlib.suppress(WorkSourceFailed):
        await source.list()
    with contextlib.suppress(WorkSourceFailed):
        await source.claim(ITEM, "m1")
    claim = WorkClaim(item=ITEM, run_marker="m1", claimed_at=NOW)
    with contextlib.suppress(WorkSourceFailed):
        await source.report(claim, Report(succeeded=True))
    with contextlib.suppress(WorkSourceFailed):
        await source.release(claim)


async def test_the_author_of_our_comment_is_who_we_are(github: FakeGitHub, make_source: MakeSource) -> None:
    github.add(1, "ready")
    github.fail("POST", "/graphql", 200, body={"data": {"viewer": {"login": "somebody-else"}}}, executes=True)
    source = make_source(INSTALLATION_TOKEN, checks_author=False)

    result = await source.claim(ITEM, "m1")

    assert result.status is ClaimStatus.CLAIMED


@pytest.fixture
async def enterprise(clock: FakeClock) -> AsyncIterator[FakeGitHub]:
    async with serve_github(clock, base_path="/api/v3") as server:
        yield server


async def test_an_enterprise_server_has_graphql_beside_its_rest_api(
    enterprise: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep
) -> None:
    enterprise.add(1, "ready")
    client = GitHubClient(
        transport, PersonalToken(TOKEN), clock, sleep, api_url=f"{enterprise.url}/", write_interval=timedelta()
    )

    result = await GitHubSource(GitHubSettings(repo=REPO), client, sleep).claim(ITEM, "m1")

    assert result.status is ClaimStatus.CLAIMED
    assert {entry.path for entry in enterprise.requests("POST", "graphql")} == {"/api/graphql"}


async def test_claims_at_the_same_time_through_one_client_are_serial(
    github: FakeGitHub, make_source: MakeSource
) -> None:
    for number in range(1, 6):
        github.add(number, "ready")
    source = make_source()

    claims = (source.claim(build_item(str(number), title=""), f"m{number}") for number in range(1, 6))
    results = await asyncio.gather(*claims)

    assert [result.status for result in results] == [ClaimStatus.CLAIMED] * 5


# GitHub Apps.


@pytest.fixture(scope="module")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("app") / "-key.pem"  # a name that looks like an option
    argv = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(path)]
    subprocess.run(argv, check=True, capture_output=True)
    return path


def run_openssl(*arguments: str, data: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *arguments], input=data, check=True, capture_output=True).stdout.strip()


def decode(part: str) -> Any:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


async def test_the_jwt_of_an_app_is_signed_with_its_key(private_key: Path, tmp_path: Path) -> None:
    jwt = await build_jwt("12345", private_key, NOW)

    head, claims, signature = jwt.split(".")
    assert json.loads(decode(head)) == {"alg": "RS256", "typ": "JWT"}
    payload = json.loads(decode(claims))
    assert (payload["iss"], payload["exp"] - payload["iat"]) == ("12345", 600)
    public, signed = tmp_path / "public.pem", tmp_path / "signature"
    signed.write_bytes(decode(signature))
    run_openssl("pkey", "-in", str(private_key), "-pubout", "-out", str(public))
    arguments = ("dgst", "-sha256", "-verify", str(public), "-signature", str(signed))
    assert run_openssl(*arguments, data=f"{head}.{claims}".encode()) == b"Verified OK"


def app_source(github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, key: Path) -> GitHubSource:
    tokens = AppToken(transport, clock, app_id="12345", installation_id=7, private_key_file=key, api_url=github.url)
    client = GitHubClient(transport, tokens, clock, sleep, api_url=github.url, write_interval=timedelta())
    return GitHubSource(GitHubSettings(repo=REPO), client, sleep)


async def test_an_app_claims_as_its_bot_with_one_token_an_hour(
    github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, private_key: Path
) -> None:
    issue = github.add(1, "ready")
    source = app_source(github, transport, clock, sleep, private_key)

    result = await source.claim(ITEM, "m1")
    tokens_at_first = len(github.requests("POST", "/access_tokens"))
    clock.advance(timedelta(minutes=56))
    await source.list()

    assert result.status is ClaimStatus.CLAIMED
    assert issue.comments[0]["actor"] == {"login": "herd-app[bot]", "type": "Bot"}
    assert (tokens_at_first, len(github.requests("POST", "/access_tokens"))) == (1, 2)


async def test_an_installation_token_with_an_unreadable_end_is_renewed_in_time(
    github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, private_key: Path
) -> None:
    github.fail("POST", "/access_tokens", 201, body={"token": INSTALLATION_TOKEN, "expires_at": "in an hour"})
    github.add(1, "ready")
    source = app_source(github, transport, clock, sleep, private_key)

    first = await source.list()
    clock.advance(timedelta(minutes=56))
    await source.list()

    assert [item.id for item in first] == ["1"]
    assert len(github.requests("POST", "/access_tokens")) == 2


async def test_a_revoked_installation_token_is_renewed_once(
    github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, private_key: Path
) -> None:
    source = app_source(github, transport, clock, sleep, private_key)
    github.fail("GET", "/issues?", 401, body={"message": "Bad credentials"})

    assert await source.list() == ()
    assert len(github.requests("POST", "/access_tokens")) == 2


async def test_a_limit_on_tokens_of_an_app_is_waited_for(
    github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, private_key: Path
) -> None:
    github.fail("POST", "/access_tokens", 403, headers={"Retry-After": "60"}, body=SECONDARY)

    assert await app_source(github, transport, clock, sleep, private_key).list() == ()
    assert waited(clock) == 60


async def test_a_key_that_is_none_is_a_config_error_without_its_text(
    github: FakeGitHub, transport: HttpTransport, clock: FakeClock, sleep: Sleep, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    key.write_text("hunter2")

    with pytest.raises(WorkSourceFailed, match="cannot sign with key") as caught:
        await app_source(github, transport, clock, sleep, key).list()

    assert caught.value.cause is FailureCause.CONFIG
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("token", ["", " ", "ghp_\nx", "ghp_é"])
def test_a_token_that_cannot_be_sent_is_refused_early(token: str) -> None:
    with pytest.raises(WorkSourceFailed, match="no usable GitHub token"):
        PersonalToken(token)
