from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.contract import a_fleet

from herdbeat.errors import ConfigError
from herdbeat.store.places import PostgresPlace, ledger_of, ledger_path, state_dir_of

URL = "postgresql://who:secret@db.example:5433/fleet"


def test_a_file_is_relative_to_the_fleet_and_its_folder_is_the_state_directory() -> None:
    fleet = replace(a_fleet(), store="sqlite:state/herdbeat.db", home="/fleets/one")

    assert ledger_of(fleet) == Path("/fleets/one/state/herdbeat.db")
    assert state_dir_of(ledger_of(fleet)) == Path("/fleets/one/state")


def test_a_database_leaves_a_state_directory_to_each_node() -> None:
    fleet = replace(a_fleet(), store=URL, home="/fleets/one")

    assert state_dir_of(ledger_of(fleet)) == Path("/fleets/one/.herdbeat")


def test_the_place_of_a_ledger_never_shows_its_password() -> None:
    place = PostgresPlace(url=URL, state_dir=Path())

    assert place.shown == "postgresql://who@db.example:5433/fleet"
    assert "secret" not in repr(place)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://who@db/fleet", "postgresql://who@db/fleet"),
        ("postgres://who:s3cret@[::1]:5432/fleet", "postgresql://who@[::1]:5432/fleet"),
        ("postgresql://who:s3cret@one:1,two:2/fleet", "postgresql://who@one:1,two:2/fleet"),
        ("postgresql:///fleet?host=%2Frun%2Fpg&user=who&password=s3cret", "postgresql://who@/run/pg/fleet"),
        ("postgresql://who:s3@cret@db/fleet", "postgresql://who@db/fleet"),
        ("postgresql://who:s3/cret@db/fleet", "postgresql://…"),
        ("postgresql://who:s3?cret@db/fleet", "postgresql://…"),
        ("postgresql://who:s3cret@db:99999999/fleet", "postgresql://…"),
    ],
)
def test_wherever_a_password_ends_it_is_not_shown(url: str, shown: str) -> None:
    assert PostgresPlace(url=url, state_dir=Path()).shown == shown


def test_any_other_store_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError) as refused:
        ledger_of(replace(a_fleet(), store="mysql://x"))

    assert "postgresql://USER@HOST/DATABASE" in refused.value.problems[0].hint


def test_what_only_a_file_can_do_is_refused_for_a_database() -> None:
    with pytest.raises(ConfigError) as refused:
        ledger_path(replace(a_fleet(), store=URL))

    assert "pg_dump" in refused.value.problems[0].hint
