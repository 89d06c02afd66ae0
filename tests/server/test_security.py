"""Who gets in, and who does not: loopback, Host, Origin, CSRF, tokens, cookies, proxies."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.server.conftest import OWN_ORIGIN, ServedFleet
from tests.support.asgi_client import AsgiClient

from herdbeat.service.commands.base import Actor, RevokeToken
from herdbeat.store.reader import Filter
from herdbeat.web import create_web_app

PAUSE = "/api/v1/schedules/triage/issues/pause"


def is_paused(served: ServedFleet) -> bool:
    """Ask the ledger, not the answer."""
    with served.gateway.open() as handle:
        record = handle.require_reader().schedule(1)
    assert record is not None
    return record.paused


def test_the_user_of_this_machine_needs_no_token(served: ServedFleet) -> None:
    answer = served.client().post(PAUSE, {"reason": "deploy"})

    assert answer.status == 200
    assert answer.json()["changed"] == 1
    assert is_paused(served)
    with served.gateway.open() as handle:
        change = handle.require_reader().changes(_newest())[0]
    assert (change.who, change.what) == ("human:local", "pause")


def test_another_machine_needs_a_token(served: ServedFleet) -> None:
    answer = AsgiClient(app=served.app, peer="192.0.2.7").get("/api/v1/status")

    assert answer.status == 401
    assert answer.json()["code"] == "unauthenticated"
    assert "Bearer" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Email"],
)
def test_a_proxy_on_this_machine_is_not_its_user(served: ServedFleet, header: str) -> None:
    assert served.client(**{header: "192.0.2.7"}).get("/api/v1/status").status == 401


@pytest.mark.parametrize(
    "server",
    [
        'server: { public_url: "https://example.com/ops" }',
        "server: { base_path: /ops }",
        "server: { trusted_proxies: [127.0.0.1] }",
        "server: { proxy_auth: { header: X-User, from: [10.0.0.1] } }",
    ],
)
def test_a_published_server_lets_nobody_in_without_credentials(
    serve: Callable[[str], ServedFleet], server: str
) -> None:
    assert serve(server).client().get("/api/v1/status").status == 401


ISOLATED_AGENT = "  - { name: boxed, isolation: bwrap, schedules: { a: { interval: 1h, prompt: Look. } } }"
ISOLATED_SCHEDULE = "  - { name: boxed, schedules: { a: { interval: 1h, prompt: Look., isolation: bwrap } } }"


@pytest.mark.parametrize("agent", [ISOLATED_AGENT, ISOLATED_SCHEDULE], ids=["agent", "schedule"])
def test_a_fleet_with_an_isolated_agent_lets_nobody_in_without_credentials(tmp_path: Path, agent: str) -> None:
    """An agent in a sandbox with a network is on this machine, too."""
    served = ServedFleet(tmp_path, agents=agent)

    assert served.client().get("/api/v1/status").status == 401
    assert served.bearer("read").get("/api/v1/status").status == 200


@pytest.mark.parametrize("agent", [ISOLATED_AGENT, ISOLATED_SCHEDULE], ids=["agent", "schedule"])
def test_an_agent_that_is_isolated_later_closes_the_server_without_a_restart(
    served: ServedFleet, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.setattr("herdbeat.server.gateway.ISOLATION_CHECK_S", 0.0)
    before = served.client().get("/api/v1/status").status

    served.apply(agents=agent)

    assert (before, served.client().get("/api/v1/status").status) == (200, 401)
    assert served.bearer("read").get("/api/v1/status").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:3232", "127.0.0.1.evil.example", "", "[::1", "evil@127.0.0.1"]
)
def test_a_page_that_rebinds_its_name_to_our_address_is_refused(served: ServedFleet, host: str) -> None:
    client = served.client()
    client.host = host

    answer = client.get("/api/v1/status")

    assert (answer.status, answer.json()["code"]) == (403, "cross_site")


@pytest.mark.parametrize("host", ["127.0.0.1:3232", "localhost:3232", "[::1]:3232", "localhost"])
def test_the_names_of_this_machine_are_accepted(served: ServedFleet, host: str) -> None:
    client = served.client()
    client.host = host

    assert client.get("/api/v1/status").status == 200


def test_a_doubled_host_is_refused(served: ServedFleet) -> None:
    headers = [("host", "127.0.0.1:3232"), ("host", "evil.example")]

    assert AsgiClient(app=served.app).send_raw("GET", "/api/v1/status", b"", headers).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://["},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {},
    ],
    ids=str,
)
def test_a_page_of_another_origin_changes_nothing(served: ServedFleet, headers: dict[str, str]) -> None:
    answer = AsgiClient(app=served.app, headers=headers).post(PAUSE, {})

    assert (answer.status, answer.json()["code"]) == (403, "cross_site")
    assert not is_paused(served)


@pytest.mark.parametrize("path", ["/api/v1/session", "/signin"])
@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_a_page_of_another_site_cannot_sign_its_visitors_in(
    served: ServedFleet, path: str, headers: dict[str, str]
) -> None:
    """They would work in the session of somebody else, and not know."""
    app, token = create_web_app(served.gateway), served.token("admin")
    body: object = {"token": token} if path.startswith("/api") else f"token={token}".encode()

    foreign = AsgiClient(app=app, headers=headers).post(path, body)
    program = AsgiClient(app=app).post(path, body)

    assert (foreign.status, "set-cookie" in foreign.headers) == (403, False)
    assert "set-cookie" in program.headers


def test_a_second_origin_is_not_overlooked(served: ServedFleet) -> None:
    headers = [("host", "127.0.0.1:3232"), ("origin", OWN_ORIGIN), ("origin", "https://evil.example")]

    answer = AsgiClient(app=served.app).send_raw("POST", PAUSE, b"{}", [*headers, ("content-type", "application/json")])

    assert (answer.status, is_paused(served)) == (403, False)


def test_a_form_post_changes_nothing(served: ServedFleet) -> None:
    """A form needs no permission of the browser to be sent anywhere."""
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": "https://evil.example"}

    answer = AsgiClient(app=served.app).send("POST", PAUSE, b"reason=owned", headers)

    assert answer.status == 403
    assert not is_paused(served)


def test_no_answer_allows_another_origin_to_read_it(served: ServedFleet) -> None:
    answer = AsgiClient(app=served.app).get("/api/v1/status", origin="https://evil.example")
    preflight = AsgiClient(app=served.app).send(
        "OPTIONS", PAUSE, headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
    )

    assert not [name for each in (answer, preflight) for name in each.headers if name.startswith("access-control")]


def test_every_answer_has_the_security_headers(served: ServedFleet) -> None:
    for path in ("/api/v1/status", "/healthz", "/api/v1/nope", "/problems/usage"):
        headers = served.client().get(path).headers

        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {"read"}),
        ("operate", {"read", "operate"}),
        ("admin", {"read", "operate", "admin"}),
        ("agent:triage", {"read own", "operate"}),
        ("agent:other", set()),
        ("hook:triage/issues", set()),
    ],
)
def test_a_token_does_what_its_scope_says_and_no_more(served: ServedFleet, scope: str, allowed: set[str]) -> None:
    client = served.bearer(scope)

    answers = {
        "read": client.get("/api/v1/schedules/queue-depth/default").status,
        "read own": client.get("/api/v1/schedules/triage/issues").status,
        "operate": client.post(PAUSE, {}).status,
        "admin": client.get("/api/v1/tokens").status,
    }

    if "read" in allowed:
        allowed = {*allowed, "read own"}
    assert {name for name, status in answers.items() if status == 200} == allowed
    assert {status for status in answers.values() if status != 200} <= {403}
    assert is_paused(served) is ("operate" in allowed)


def test_an_agent_sees_its_own_schedules_in_lists_and_no_others(served: ServedFleet) -> None:
    client = served.bearer("agent:triage")

    listed = client.get("/api/v1/schedules").json()["items"]
    changes = client.get("/api/v1/changes").json()["items"]

    assert {each["target"] for each in listed} == {"triage"}
    assert {each["subject"].partition("/")[0] for each in changes} == {"triage"}
    assert client.get("/api/v1/runs?schedule=backup").status == 403
    assert client.get("/api/v1/nodes").status == 403
    assert {each["target"] for each in client.get("/api/v1/targets").json()["items"]} == {"triage"}


def test_an_agent_finds_its_own_target_also_behind_many_others(served: ServedFleet) -> None:
    """The first page was read, and those of others removed from it: nothing was left."""
    client = served.bearer("agent:triage")

    listed = client.get("/api/v1/targets?limit=1").json()

    assert ([each["target"] for each in listed["items"]], listed["next_cursor"]) == (["triage"], None)


def test_an_agent_does_not_learn_which_schedules_others_have(served: ServedFleet) -> None:
    client = served.bearer("agent:triage")

    own, all_of_them = (
        client.post("/api/v1/bulk", {"select": select, "action": "pause", "dry_run": True})
        for select in ({"names": ["triage/*"]}, {"all": True})
    )

    assert (own.status, own.json()["count"]) == (200, 2)
    assert all_of_them.status == 403


@pytest.mark.parametrize("query", ["tag=vendor-x", "group=night", "selector=queue-depth", "tag=vendor-x&group=night"])
def test_an_agent_sees_no_hint_of_others_by_their_tag(served: ServedFleet, query: str) -> None:
    human = served.client()
    for each in ("triage/standup", "queue-depth/default"):
        assert human.post(f"/api/v1/schedules/{each}/hints", {"every": "30m"}).status == 200

    listed = served.bearer("agent:triage").get(f"/api/v1/hints?{query}").json()["items"]

    assert {each["schedule"].partition("/")[0] for each in listed} == {"triage"}


def test_an_agent_sees_no_schedule_of_others_by_a_search_that_fills_its_limit(served: ServedFleet) -> None:
    """Its own target was added to the end of what it searched for, and cut off with it."""
    words = quote(("-zz " * 60)[:200])
    client = served.bearer("agent:triage")

    listed, counted = (
        client.get(f"/api/v1/schedules?q={words}{more}").json() for more in ("", "&sort=name&count=approx")
    )

    assert {each["target"] for each in [*listed["items"], *counted["items"]]} == {"triage"}
    assert counted["count"] == 2


OF_OTHERS = [
    ("POST", "bulk", {"select": {"names": ["{}"]}, "action": "pause", "dry_run": True}),
    ("POST", "bulk", {"select": {"names": ["{}/default"]}, "action": "pause", "dry_run": True, "expect": 9}),
    ("POST", "rules/test", {"schedule": "{}/default"}),
    ("POST", "attention/ack", {"selector": "{}"}),
    ("POST", "work/release", {"items": ["{}"]}),
    ("POST", "schedules", {"schedule": "{}/new", "every": "1h"}),
    ("POST", "targets", {"name": "{}", "url": "https://api.example.com/", "every": "1h"}),
    ("PATCH", "targets/{}", {"timeout": "5s"}),
    ("DELETE", "targets/{}", None),
    ("GET", "targets/{}", None),
    ("GET", "schedules/{}/default", None),
    ("GET", "logs?selector={}", None),
    ("GET", "logs?selector=triage&selector={}", None),
    ("GET", "runs?schedule={}", None),
    ("GET", "beats?schedule={}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), OF_OTHERS)
def test_an_agent_cannot_tell_a_target_of_others_from_none(
    served: ServedFleet, method: str, path: str, body: dict[str, object] | None
) -> None:
    """Names were guessed for it, and places in files named: "did you mean", "is defined in herdbeat.yaml:14"."""
    client = served.bearer("agent:triage")

    existing, similar = (
        client.send(method, f"/api/v1/{path.format(name)}", body and json.loads(json.dumps(body).replace("{}", name)))
        for name in ("backup", "bakcup")
    )

    first, second = ({**each.json(), "request_id": "", "instance": ""} for each in (existing, similar))
    assert existing.status == 403, existing.text
    assert first == second


def test_an_agent_is_told_no_name_of_others_for_a_typo(served: ServedFleet) -> None:
    client = served.bearer("agent:triage")

    answers = [
        client.get("/api/v1/schedules/triage/backup"),
        client.post("/api/v1/schedules/triage/queue-dept/pause", {}),
        client.get("/api/v1/runs?schedule=triage/queue-dept"),
    ]

    assert {each.status for each in answers} == {404}
    assert not any("did you mean" in each.text for each in answers)


@pytest.mark.parametrize(
    "change",
    [{"url": "https://evil.example/"}, {"url": "http://api.example.com/a"}, {"url": "https://api.example.com:8443/"}],
)
@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_the_secrets_of_an_endpoint_are_not_sent_to_another_host(
    served: ServedFleet, scope: str, change: dict[str, str]
) -> None:
    """A token that may change an address learned the header that went with it: from its own server."""
    path = "/api/v1/targets/probe"
    headers = {"Authorization": "Bearer hunter2-hunter2-hunter2"}
    probe = {"name": "probe", "url": "https://api.example.com/a", "headers": headers, "every": "1h"}
    served.client().post("/api/v1/targets", probe)
    client = served.bearer(scope)

    moved = client.patch(path, change)
    same_host = client.patch(path, {"url": "https://api.example.com/b"})
    without = client.patch(path, {**change, "headers": {"Accept": "text/plain"}})

    assert (moved.status, moved.json()["code"]) == (403, "forbidden")
    assert (same_host.status, without.status) == (200, 200), without.text


@pytest.mark.parametrize("key", ["command", "call", "runtime"])
@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_a_token_that_tries_to_create_a_program_is_refused(served: ServedFleet, scope: str, key: str) -> None:
    body = {"name": "evil", "url": "https://example.com/", key: "touch /tmp/owned"}

    answer = served.bearer(scope).post("/api/v1/targets", body)

    assert answer.status == 422
    assert served.client().get("/api/v1/targets/evil").status == 404


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("precheck", ["touch", "/tmp/owned"]),
        ("work_source", {"type": "command", "list": ["touch", "/tmp/owned"]}),
        ("adapt", []),
        ("secret_env", "HOME"),
        ("tags", ["${HOME}"]),
        ("runs_on", "gpu"),
    ],
)
def test_a_schedule_from_outside_names_no_program_and_no_variable(served: ServedFleet, key: str, value: object) -> None:
    body = {"schedule": "triage/new", "every": "1h", key: value}

    answer = served.bearer("admin").post("/api/v1/schedules", body)

    assert (answer.status, answer.json()["code"]) == (422, "invalid_value")
    assert served.client().get("/api/v1/schedules/triage/new").status == 404


def test_a_prompt_takes_the_scope_admin(served: ServedFleet) -> None:
    body = {"schedule": "triage/new", "every": "1h", "prompt": "Delete everything."}

    refused = served.bearer("operate").post("/api/v1/schedules", body)
    created = served.bearer("admin", name="boss").post("/api/v1/schedules", body)

    assert (refused.status, refused.json()["code"]) == (403, "forbidden")
    assert created.status == 201


@pytest.mark.parametrize("text", ["", "Bearer", "Bearer hbt_wrong", "Basic aGk6aGk=", "Bearer é"])
def test_a_wrong_token_is_refused_also_on_this_machine(served: ServedFleet, text: str) -> None:
    """Whoever sends a credential means it: falling back to loopback would hide that it is wrong."""
    assert served.client(authorization=text).get("/api/v1/status").status == 401


def test_an_expired_or_revoked_token_is_refused(served: ServedFleet) -> None:
    client = served.bearer("read")
    assert client.get("/api/v1/status").status == 200

    served.gateway.deliver(Actor(name="human:you"), RevokeToken(name="ci"))

    assert client.get("/api/v1/status").status == 401


def test_guessing_tokens_is_slowed_down(served: ServedFleet) -> None:
    guesses = [AsgiClient(app=served.app, headers={"authorization": f"Bearer hbt_{n}"}) for n in range(12)]

    statuses = [each.get("/api/v1/status").status for each in guesses]

    assert statuses == [401] * 10 + [429] * 2
    assert int(guesses[0].get("/api/v1/status").headers["retry-after"]) > 0
    other = AsgiClient(app=served.app, peer="192.0.2.9", headers=guesses[0].headers)
    assert other.get("/api/v1/status").status == 401


def test_wrong_tokens_of_an_address_do_not_lock_out_right_ones(served: ServedFleet) -> None:
    program = served.bearer("read", peer="192.0.2.7")
    guesser = AsgiClient(app=served.app, peer="192.0.2.7", headers={"authorization": "Bearer hbt_wrong"})

    statuses = {guesser.get("/api/v1/status").status for _ in range(12)}

    assert statuses == {401, 429}
    assert program.get("/api/v1/status").status == 200


@pytest.mark.parametrize("forwarded", [["203.0.113.5, 198.51.100.4"], ["203.0.113.5", "198.51.100.4"]])
def test_a_client_is_who_the_trusted_proxy_names_last(
    serve: Callable[[str], ServedFleet], forwarded: list[str]
) -> None:
    served = serve("server: { trusted_proxies: [127.0.0.1] }")
    headers = [("host", "127.0.0.1:3232"), *(("x-forwarded-for", each) for each in forwarded)]

    AsgiClient(app=served.app).send_raw("POST", "/hooks/backup/nothing", b"", headers)

    listed = served.bearer("read").get("/api/v1/refused-calls").json()["items"]
    assert [each["peer"] for each in listed] == ["198.51.100.4"]


def test_a_cookie_is_bound_to_its_token_and_needs_the_csrf_token(serve: Callable[[str], ServedFleet]) -> None:
    served = serve('server: { public_url: "https://ops.example.com" }')
    token, origin = served.token("operate"), "https://ops.example.com"
    browser = AsgiClient(app=served.app, peer="192.0.2.7", host="ops.example.com", headers={"origin": origin})

    logged_in = browser.post("/api/v1/session", {"token": token})
    cookie = logged_in.headers["set-cookie"]
    browser.headers["cookie"] = cookie.partition(";")[0]
    session = browser.get("/api/v1/session").json()
    without, wrong, right = (
        browser.post(PAUSE, {}, x_csrf_token=each) for each in ("", "0" * 64, session["csrf_token"])
    )
    foreign = AsgiClient(app=served.app, peer="192.0.2.7", host="ops.example.com", headers=dict(browser.headers))
    foreign.headers["origin"] = "https://evil.example"

    assert logged_in.status == 204
    assert {"HttpOnly", "SameSite=strict", "Secure"} <= {part.strip() for part in cookie.split(";")}
    assert (session["name"], session["credential"]) == ("human:token:ci", "cookie")
    assert [each.status for each in (without, wrong, right)] == [403, 403, 200]
    assert foreign.post(PAUSE, {}, x_csrf_token=session["csrf_token"]).status == 403
    served.gateway.deliver(Actor(name="human:you"), RevokeToken(name="ci"))
    assert browser.get("/api/v1/session").status == 401


def test_the_login_link_works_once(serve: Callable[[str], ServedFleet]) -> None:
    served = serve("server: { base_path: /ops }")
    browser = AsgiClient(app=served.app)

    wrong = browser.get("/ops/login?code=guess")
    first = browser.get("/ops/login?code=one-time")
    again = browser.get("/ops/login?code=one-time")
    browser.headers["cookie"] = first.headers["set-cookie"].partition(";")[0]

    assert [wrong.status, first.status, again.status] == [401, 303, 401]
    assert "Path=/ops" in first.headers["set-cookie"]
    assert first.headers["location"] == "/ops/"
    assert browser.get("/ops/api/v1/status").status == 200


PROXIED = "server: { proxy_auth: { header: X-Forwarded-Email, from: [10.0.0.1], scope: operate } }"


def test_the_user_of_a_proxy_is_known_by_name(serve: Callable[[str], ServedFleet]) -> None:
    served = serve(PROXIED)
    headers = {"x-forwarded-email": "ann@example.com", "origin": OWN_ORIGIN}
    client = AsgiClient(app=served.app, peer="10.0.0.1", headers=headers)
    session = client.get("/api/v1/session").json()

    without, paused = client.post(PAUSE, {}), client.post(PAUSE, {}, x_csrf_token=session["csrf_token"])

    assert session["name"] == "human:ann@example.com"
    assert (without.status, paused.status) == (403, 200)
    assert client.get("/api/v1/tokens").status == 403
    with served.gateway.open() as handle:
        assert handle.require_reader().changes(_newest())[0].who == "human:ann@example.com"


def test_a_proxy_header_from_another_address_says_nothing(serve: Callable[[str], ServedFleet]) -> None:
    served = serve(PROXIED)
    for peer in ("10.0.0.2", "127.0.0.1"):
        headers = {"x-forwarded-email": "ann@example.com", "x-forwarded-for": "10.0.0.1"}
        assert AsgiClient(app=served.app, peer=peer, headers=headers).get("/api/v1/status").status == 401


def test_a_doubled_proxy_header_is_refused(serve: Callable[[str], ServedFleet]) -> None:
    headers = [("host", "127.0.0.1:3232"), ("x-forwarded-email", "ann@x.org"), ("x-forwarded-email", "root@x.org")]
    client = AsgiClient(app=serve(PROXIED).app, peer="10.0.0.1")

    assert client.send_raw("GET", "/api/v1/status", b"", headers).status == 401


def test_a_body_that_is_too_large_is_refused(served: ServedFleet) -> None:
    answer = served.client().send("POST", PAUSE, b"x" * (1024 * 1024 + 1))
    undeclared = served.client().send("POST", PAUSE, b"x" * (1024 * 1024 + 1), {"content-length": "0"})

    assert (answer.status, undeclared.status) == (413, 413)
    assert answer.json()["code"] == "too_large"


def test_a_token_is_in_no_answer_but_that_of_its_creation(served: ServedFleet) -> None:
    created = served.client().post("/api/v1/tokens", {"name": "ci", "scope": "read", "expires": "1h"})
    text = created.json()["token"]

    others = [served.client().get(f"/api/v1{path}").text for path in ("/tokens", "/changes", "/session", "/status")]

    assert created.status == 201
    assert text.startswith("hbt_")
    assert all(text not in each for each in others)


def _newest() -> Filter:

    return Filter(limit=1)
