"""Webhook calls at the application: what is accepted, what is refused, and how little a caller learns."""

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.server.conftest import NOW
from tests.support.asgi_client import AsgiClient, AsgiResponse

from herdbeat.bootstrap.config import LEDGER_FILE_NAME, load_config
from herdbeat.bootstrap.server_spec import build_server_spec, open_server_handle
from herdbeat.domain.webhook import WebhookAuth
from herdbeat.errors import StoreUnavailable
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.server.app import create_app
from herdbeat.server.gateway import FleetGateway
from herdbeat.service.commands.base import Actor, CreateToken, DisableSchedules
from herdbeat.service.commands.tokens import mint_token
from herdbeat.service.webhooks.intake import build_preset
from herdbeat.service.webhooks.refused_calls import MAX_CALLS_PER_SCHEDULE, load_refused_calls
from herdbeat.service.webhooks.signatures import sign_call
from herdbeat.store.location import create_store, open_reader, store_location
from herdbeat.store.reader import Filter
from herdbeat.testing import FakeClock

SECRETS = {
    "HOOK_SECRET": "It's a Secret to Everybody",
    "NEW_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "OLD_SECRET": "old-secret-of-standard",
}
FLEET = """\
version: 1
fleet: { name: pets }
timezone: UTC
webhooks: { secret_env: HOOK_SECRET, max_body: 2048 }
agents:
  - name: devops
    runtime: command
    command: ["true"]
    schedules:
      github: { type: webhook, prompt: "{{payload.action}}" }
      standard: { type: webhook, prompt: go, auth: { preset: standard, secret_env: [NEW_SECRET, OLD_SECRET] } }
      slack: { type: webhook, prompt: go, auth: { preset: slack } }
      filtered: { type: webhook, prompt: go, auth: none, when: 'payload.action == "published"' }
      narrow: { type: webhook, prompt: go, auth: none, max_queued: 1 }
      token: { type: webhook, prompt: go, auth: { token: true } }
      unset: { type: webhook, prompt: go, auth: { secret_env: NOT_SET } }
      clock: { every: 5m, prompt: go }
"""


class HookedFleet:
    """A fleet with webhooks, whose ledger nobody runs, and the application that receives its calls."""

    def __init__(self, folder: Path, text: str = FLEET) -> None:
        path = folder / "herdbeat.yaml"
        path.write_text(text, encoding="utf-8")
        fleet = load_config(str(path), SECRETS, folder).fleet
        assert fleet is not None
        self.location = store_location(fleet)
        self.clock = FakeClock(NOW)
        with closing(create_store(self.location)) as store:
            store.open()
            store.write_now(lambda tx: apply_fleet(tx, fleet, NOW))
        spec = build_server_spec(fleet, str(path), {}, folder, has_files=True)
        spec = replace(spec, socket_fd=0, port=3232, secret="s" * 32)
        self.gateway = FleetGateway(spec, open_server_handle(spec, self.clock, SECRETS), SECRETS)
        self.state_dir = self.gateway.handle.state_dir
        self.client = AsgiClient(app=create_app(self.gateway), peer="192.0.2.7")

    def call(self, name: str, body: bytes, **headers: str) -> AsgiResponse:
        return self.client.send("POST", f"/hooks/devops/{name}", body, headers)

    def signed(self, name: str, body: bytes, delivery: str, *, preset: str, secret: str) -> AsgiResponse:
        headers = sign_call(build_preset(WebhookAuth(preset=preset)), secret, body, delivery, self.clock.now())
        return self.call(name, body, **headers)

    def github(self, body: bytes, delivery: str, name: str = "github") -> AsgiResponse:
        return self.signed(name, body, delivery, preset="github", secret=SECRETS["HOOK_SECRET"])

    def beats(self) -> list[tuple[str, str, int]]:
        with closing(open_reader(self.location)) as reader:
            found = reader.beats(Filter(limit=100))
        return [(each.dedup_id, each.outcome, each.count) for each in reversed(found)]

    def reasons(self) -> list[tuple[int, str]]:
        items = AsgiClient(app=self.client.app).get("/api/v1/refused-calls").json()["items"]
        return [(each["status"], each["reason"]) for each in items]


@pytest.fixture
def hooked(tmp_path: Path) -> HookedFleet:
    return HookedFleet(tmp_path)


def test_the_published_signature_of_github_is_accepted_and_becomes_one_beat(hooked: HookedFleet) -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    answer = hooked.call("github", b"Hello, World!", x_hub_signature_256=signature, x_github_delivery="d-1")

    assert (answer.status, answer.json()) == (202, {"status": "accepted"})
    assert hooked.beats() == [("webhook:d-1", "pending", 1)]


def test_the_published_signature_of_standard_webhooks_is_accepted_in_its_time_only(hooked: HookedFleet) -> None:
    sent_at = datetime.fromtimestamp(1_614_265_330, UTC)
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }

    def call_at(moment: datetime) -> int:
        hooked.clock.advance(moment - hooked.clock.now())
        return hooked.client.send("POST", "/hooks/devops/standard", b'{"test": 2432232314}', headers).status

    assert call_at(sent_at - timedelta(minutes=6)) == 401
    assert call_at(sent_at + timedelta(minutes=6)) == 401
    assert call_at(sent_at) == 202
    assert hooked.beats() == [("webhook:msg_p5jXN8AQM9LWM0D4loKWxJek", "pending", 1)]


def test_a_call_before_the_first_start_is_to_be_repeated(tmp_path: Path) -> None:
    """`herdbeat serve` answered 404 before `herdbeat up` had made the ledger: the sender gives such a call up."""
    hooked = HookedFleet(tmp_path)
    assert isinstance(hooked.location, Path)
    for each in hooked.location.parent.glob(f"{hooked.location.name}*"):
        each.unlink()
    gateway = FleetGateway(hooked.gateway.spec, open_server_handle(hooked.gateway.spec, hooked.clock, {}), SECRETS)
    client = AsgiClient(app=create_app(gateway))

    answer = client.send("POST", "/hooks/devops/github", b"{}")

    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


def test_both_secrets_are_accepted_while_one_replaces_the_other(hooked: HookedFleet) -> None:
    answers = [
        hooked.signed("standard", b"{}", name, preset="standard", secret=SECRETS[name])
        for name in ("NEW_SECRET", "OLD_SECRET")
    ]

    assert [each.status for each in answers] == [202, 202]


def test_an_altered_body_is_refused_without_a_word_about_why(hooked: HookedFleet) -> None:
    headers = sign_call(
        build_preset(WebhookAuth()), SECRETS["HOOK_SECRET"], b'{"action":"opened"}', "d", hooked.clock.now()
    )

    answer = hooked.call("github", b'{"action":"deleted"}', **headers)

    assert answer.status == 401
    assert "signature" not in answer.text
    assert hooked.beats() == []
    assert hooked.reasons() == [(401, "not_proven")]


def test_a_doubled_header_is_refused(hooked: HookedFleet) -> None:
    signed = sign_call(build_preset(WebhookAuth()), SECRETS["HOOK_SECRET"], b"{}", "d", hooked.clock.now())
    headers = [("host", "127.0.0.1:3232"), *signed.items(), ("x-hub-signature-256", "sha256=" + "0" * 64)]

    answer = hooked.client.send_raw("POST", "/hooks/devops/github", b"{}", headers)

    assert (answer.status, hooked.beats()) == (401, [])


def test_a_redelivery_and_a_replay_under_another_id_make_no_second_beat(hooked: HookedFleet) -> None:
    answers = [hooked.github(b'{"n":1}', delivery) for delivery in ("d-1", "d-1", "d-2")]

    assert [each.status for each in answers] == [202, 200, 200]
    assert hooked.beats() == [("webhook:d-1", "pending", 1)]
    assert hooked.reasons() == [(200, "replayed")]


def test_pings_and_challenges_are_answered_without_a_beat(hooked: HookedFleet) -> None:
    headers = sign_call(build_preset(WebhookAuth()), SECRETS["HOOK_SECRET"], b"{}", "d", hooked.clock.now())
    challenge = json.dumps({"type": "url_verification", "challenge": "abc"}).encode()

    ping = hooked.call("github", b"{}", **headers, x_github_event="ping")
    verified = hooked.signed("slack", challenge, "", preset="slack", secret=SECRETS["HOOK_SECRET"])
    forged = hooked.call("slack", challenge)

    assert (ping.status, verified.json()) == (200, {"challenge": "abc"})
    assert (forged.status, "abc" in forged.text) == (401, False)
    assert hooked.beats() == []


def test_filtered_calls_are_one_skipped_row_and_no_refused_call(hooked: HookedFleet) -> None:
    answers = [hooked.call("filtered", body) for body in (b'{"action":"edited"}', b"[]", b"no json", b"")]
    accepted = hooked.call("filtered", b'{"action":"published"}', idempotency_key="k")

    assert {each.status for each in answers} == {200}
    assert accepted.status == 202
    assert [(outcome, count) for _, outcome, count in hooked.beats()] == [("skipped", 4), ("pending", 1)]
    assert hooked.reasons() == []


def test_more_calls_than_max_queued_get_429_with_retry_after(hooked: HookedFleet) -> None:
    answers = [hooked.call("narrow", b"{}", idempotency_key=str(number)) for number in range(2)]

    assert [each.status for each in answers] == [202, 429]
    assert int(answers[1].headers["retry-after"]) > 0
    assert hooked.reasons() == [(429, "queue_full")]


def test_a_body_above_max_body_is_refused_also_without_a_length(hooked: HookedFleet) -> None:
    too_long = b"x" * 3_000
    undeclared = hooked.client.send_raw("POST", "/hooks/devops/narrow", too_long, [("host", "127.0.0.1:3232")])

    assert hooked.call("narrow", too_long).status == 413
    assert undeclared.status == 413
    assert hooked.beats() == []


@pytest.mark.parametrize("name", ["clock", "nothing", "github%2F..", "x" * 300])
def test_what_takes_no_calls_is_not_found(hooked: HookedFleet, name: str) -> None:
    answer = hooked.call(name, b"{}")

    assert answer.status == 404
    assert hooked.reasons() == [(404, "unknown")]


def test_a_disabled_schedule_is_not_found_either(hooked: HookedFleet) -> None:
    with closing(open_reader(hooked.location)) as reader:
        (record,) = reader.schedules(Filter(target="devops", name="narrow", limit=1))
    hooked.gateway.deliver(Actor(name="human:you"), DisableSchedules(schedules=(record.id,)))

    assert hooked.call("narrow", b"{}").status == 404
    assert hooked.reasons() == [(404, "disabled")]


@pytest.mark.parametrize("body", [b"{}", b"x" * 3_000])
def test_the_answer_does_not_tell_a_disabled_webhook_from_none(hooked: HookedFleet, body: bytes) -> None:
    with closing(open_reader(hooked.location)) as reader:
        (record,) = reader.schedules(Filter(target="devops", name="token", limit=1))
    hooked.gateway.deliver(Actor(name="human:you"), DisableSchedules(schedules=(record.id,)))

    answers = [hooked.call(name, body, authorization="Bearer hbt_wrong") for name in ("token", "nothing") * 12]

    assert len({each.status for each in answers}) == 1
    assert len({each.json()["detail"] for each in answers}) == 1


def test_a_secret_that_is_not_set_refuses_every_call(hooked: HookedFleet) -> None:
    assert hooked.github(b"{}", "d", name="unset").status == 401


@pytest.mark.parametrize(
    ("scope", "status"), [("hook:devops/token", 202), ("hook:devops/github", 401), ("admin", 401), ("", 401)]
)
def test_only_a_token_for_this_hook_may_call_it(hooked: HookedFleet, scope: str, status: int) -> None:
    minted = mint_token()
    if scope:
        hooked.gateway.deliver(Actor(name="human:you"), CreateToken(name="pager", grants=scope, digest=minted.digest))

    answer = hooked.call("token", b'{"text":"down"}', authorization=f"Bearer {minted.text}")

    assert answer.status == status


def test_the_alias_of_agentd_finds_a_schedule_by_its_name(hooked: HookedFleet) -> None:
    answer = hooked.client.send("POST", "/webhooks/narrow", b"{}")
    unknown = hooked.client.send("POST", "/webhooks/nothing", b"{}")

    assert (answer.status, unknown.status) == (202, 404)


def test_refused_calls_are_bounded_saved_and_never_contain_a_body(hooked: HookedFleet) -> None:
    for _ in range(MAX_CALLS_PER_SCHEDULE + 3):
        hooked.call("github", b"my-private-body")

    assert len(hooked.reasons()) == MAX_CALLS_PER_SCHEDULE
    stored = load_refused_calls(hooked.state_dir / LEDGER_FILE_NAME).newest()
    assert {(each.schedule, each.peer, each.size) for each in stored} == {("devops/github", "192.0.2.7", 15)}
    assert b"my-private-body" not in b"".join(
        each.read_bytes() for each in hooked.state_dir.iterdir() if each.is_file()
    )


def test_a_store_that_does_not_answer_gets_503_and_the_sender_may_repeat(
    hooked: HookedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(FleetGateway, "deliver", fail)
        refused = hooked.github(b"{}", "d-1")
    accepted = hooked.github(b"{}", "d-1")

    assert (refused.status, refused.headers["retry-after"], accepted.status) == (503, "5", 202)


HOSTILE = [
    b'{"action":"\\u0000\\ud800"}',
    b"\xff\xfe\x00",
    b"[" * 1_000 + b"]" * 1_000,
    b'{"action": NaN}',
    b'{"action": ' + b"9" * 900 + b"}",
    b'{"payload": {"payload": {}}, "__proto__": 1, "agent": "root"}',
]


@pytest.mark.parametrize("body", HOSTILE)
def test_odd_bodies_that_are_signed_become_beats_like_others(hooked: HookedFleet, body: bytes) -> None:
    answer = hooked.github(body, "odd")

    assert answer.status == 202
    assert hooked.beats() == [("webhook:odd", "pending", 1)]


def test_a_delivery_id_cannot_take_the_id_of_another_kind_of_beat(hooked: HookedFleet) -> None:
    answers = [hooked.github(f'{{"n":{number}}}'.encode(), name) for number, name in enumerate(("cron:1", "a" * 5_000))]

    assert [each.status for each in answers] == [202, 202]
    assert all(name.startswith("webhook:") and len(name) <= 200 for name, _, _ in hooked.beats())


FOREIGN_PAGES = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:8000"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"origin": "http://127.0.0.1:3232", "host": "evil.example"},
    {"origin": "http://evil.example", "host": "evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN_PAGES)
def test_a_page_of_another_site_cannot_call_an_open_webhook(hooked: HookedFleet, headers: dict[str, str]) -> None:
    """A form, or text sent without asking, comes from the machine of whoever visits that page."""
    answer = hooked.call("narrow", b"a=1", content_type="text/plain", **headers)

    assert answer.status in (401, 403)
    assert hooked.beats() == []


def test_a_program_and_a_page_of_this_server_call_an_open_webhook(hooked: HookedFleet) -> None:
    by_program = hooked.call("filtered", b'{"action": "published"}')
    by_page = hooked.call("filtered", b'{"action": "published"}', origin="http://127.0.0.1:3232")
    signed = hooked.client.send(
        "POST",
        "/hooks/devops/github",
        b"{}",
        {
            **sign_call(
                build_preset(WebhookAuth(preset="github")), SECRETS["HOOK_SECRET"], b"{}", "d-9", hooked.clock.now()
            ),
            "origin": "https://github.example",
        },
    )

    assert [each.status for each in (by_program, by_page, signed)] == [202, 202, 202]


def test_a_webhook_whose_token_cannot_be_looked_up_is_repeated_later(
    hooked: HookedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no stranger, and nobody learns where the ledger is."""
    hooked.call("token", b"{}", authorization="Bearer nobody")  # the schedule is known for a second

    def fail(*_: object) -> object:
        raise StoreUnavailable("postgresql://me@db.internal:5432/herd: connection refused")

    monkeypatch.setattr("herdbeat.store.reader.Reader.find_token", fail)
    answer = hooked.call("token", b"{}", authorization="Bearer nobody")

    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert "internal" not in answer.text
    assert not any("internal" in str(each) for each in hooked.reasons())


def test_a_webhook_whose_secret_is_in_an_invalid_file_is_repeated_later(tmp_path: Path) -> None:
    """Its sender was told 401, as if the signature were wrong, and did not try again."""
    file = tmp_path / "herdbeat.yaml"
    hooked = HookedFleet(tmp_path, FLEET.replace("auth: { secret_env: NOT_SET }", "secret: in-the-file"))
    right = hooked.signed("unset", b"{}", "d-1", preset="github", secret="in-the-file")
    text = file.read_text(encoding="utf-8")

    file.write_text("version: [", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("herdbeat.server.webhooks.receiver.HOOK_CACHE_S", 0.0)
        refused = hooked.signed("unset", b"[]", "d-2", preset="github", secret="in-the-file")
        file.write_text(text, encoding="utf-8")
        repeated = hooked.signed("unset", b"[]", "d-2", preset="github", secret="in-the-file")

    assert [each.status for each in (right, refused, repeated)] == [202, 503, 202]
    assert refused.headers["retry-after"] == "5"
