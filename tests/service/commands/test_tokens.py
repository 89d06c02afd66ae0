"""Tokens: only their hash is kept, a name is in force once, and each scope is what an actor with it may do."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command_bus import YOU, ledger_path, make_handle

from herdbeat.bootstrap.handle import FleetHandle
from herdbeat.errors import Conflict, NotFound, UsageError
from herdbeat.scheduler.apply.apply import apply_fleet
from herdbeat.service.commands.base import CreateToken, RevokeToken, Scope
from herdbeat.service.commands.tokens import build_actor, hash_token, mint_token, parse_token_scope
from herdbeat.store.location import create_store

NOW = datetime(2026, 3, 26, 13, 4, tzinfo=UTC)


@pytest.fixture
def handle(tmp_path: Path) -> FleetHandle:
    found = make_handle(ledger_path(tmp_path), NOW)
    with closing(create_store(found.path)) as store:
        store.open()
        store.write_now(lambda tx: apply_fleet(tx, found.fleet, NOW))
    return make_handle(ledger_path(tmp_path), NOW)


def test_a_token_is_found_by_its_text_and_only_its_hash_is_in_the_ledger(handle: FleetHandle, tmp_path: Path) -> None:
    minted = mint_token()

    handle.dispatcher.run(YOU, CreateToken(name="ci", grants="operate", digest=minted.digest))

    with closing(handle.open_reader()) as reader:
        found = reader.find_token(hash_token(minted.text))
        unknown = reader.find_token(hash_token("hbt_guessed"))
    assert found is not None
    assert (found.name, found.scope, found.created_by, found.is_valid(NOW)) == ("ci", "operate", "human:you", True)
    assert unknown is None
    assert all(minted.text.encode() not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_a_revoked_token_is_invalid_and_its_name_is_free_again(handle: FleetHandle) -> None:
    first, second = mint_token(), mint_token()
    handle.dispatcher.run(YOU, CreateToken(name="ci", grants="read", digest=first.digest))
    with pytest.raises(Conflict, match='already a token "ci"'):
        handle.dispatcher.run(YOU, CreateToken(name="ci", grants="read", digest=second.digest))

    handle.dispatcher.run(YOU, RevokeToken(name="ci"))
    handle.dispatcher.run(YOU, CreateToken(name="ci", grants="admin", digest=second.digest))

    with closing(handle.open_reader()) as reader:
        old, new = (reader.find_token(each.digest) for each in (first, second))
    assert old is not None
    assert new is not None
    assert (old.is_valid(NOW), new.is_valid(NOW)) == (False, True)
    with pytest.raises(NotFound, match='no token "robot"'):
        handle.dispatcher.run(YOU, RevokeToken(name="robot"))


def test_an_expired_token_is_invalid_and_gives_its_name_to_a_new_one(handle: FleetHandle) -> None:
    end = NOW + timedelta(hours=1)
    handle.dispatcher.run(YOU, CreateToken(name="ci", grants="read", digest="a" * 64, expires_at=end))

    with closing(handle.open_reader()) as reader:
        (token,) = reader.tokens(10)

    assert (token.is_valid(end - timedelta(seconds=1)), token.is_valid(end)) == (True, False)
    with pytest.raises(UsageError, match="expired already"):
        handle.dispatcher.run(YOU, CreateToken(name="x", grants="read", digest="b" * 64, expires_at=NOW))


@pytest.mark.parametrize("text", ["", "root", "read:x", "agent", "agent:", "hook:", "READ"])
def test_a_text_that_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a scope"):
        parse_token_scope(text)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "né", "a/b"])
def test_a_name_that_could_not_be_typed_is_refused(handle: FleetHandle, name: str) -> None:
    with pytest.raises(UsageError, match="is not a name for a token"):
        handle.dispatcher.run(YOU, CreateToken(name=name, grants="read", digest="a" * 64))


@pytest.mark.parametrize(
    ("scope", "who", "target", "scopes"),
    [
        ("read", "human:token:ci", "", {Scope.READ}),
        ("operate", "human:token:ci", "", {Scope.READ, Scope.TRIGGER, Scope.CONTROL}),
        ("admin", "human:token:ci", "", set(Scope) - {Scope.EXEC}),
        ("agent:triage", "agent:triage", "triage", set(Scope) - {Scope.ADMIN, Scope.EXEC}),
        ("hook:deploy/default", "human:token:ci", "", set()),
    ],
)
def test_each_scope_becomes_an_actor_from_outside(scope: str, who: str, target: str, scopes: set[Scope]) -> None:
    actor = build_actor("token:ci", parse_token_scope(scope))

    assert (actor.name, actor.target, set(actor.scopes), actor.is_remote) == (who, target, scopes, True)
