from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.store_contract import build_fleet

from herdbeat.errors import ConfigError
from herdbeat.store.location import PostgresLocation, require_sqlite_path, resolve_state_dir, store_location

URL = "postgresql://who:secret@db.example:5433/fleet"


def test_a_file_is_relative_to_the_fleet_and_its_folder_is_the_state_directory() -> None:
    fleet = replace(build_fleet(), store="sqlite:state/herdbeat.db", home="/fleets/one")

    assert store_location(fleet) == Path("/fleets/one/state/herdbeat.db")
    assert resolve_state_dir(store_location(fleet)) == Path("/fleets/one/state")


def test_a_database_leaves_a_state_directory_to_each_node() -> None:
    fleet = replace(build_fleet(), store=URL, home="/fleets/one")

    assert resolve_state_dir(store_location(fleet)) == Path("/fleets/one/.herdbeat")


def test_the_place_of_a_ledger_never_shows_its_password() -> None:
    place = PostgresLocation(url=URL, state_dir=Path())

    assert place.display_url == "postgresql://who@db.example:5433/fleet"
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
    assert PostgresLocation(url=url, state_dir=Path()).display_url == shown


def test_any_other_store_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConfigError) as refused:
        store_location(replace(build_fleet(), store="mysql://x"))

    assert "postgresql://USER@HOST/DATABASE" in refused.value.problems[0].hint


def test_commands_for_files_are_refused_for_a_database() -> None:
    with pytest.raises(ConfigError) as refused:
        require_sqlite_path(replace(build_fleet(), store=URL))

    assert "pg_dump" in refused.value.problems[0].hint
