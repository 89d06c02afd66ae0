"""The time zone of this machine."""

import pytest

from herdbeat.bootstrap.config import detect_system_zone


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":America/New_York", "America/New_York"),
        ("Etc/UTC", "UTC"),
        ("Zulu", "UTC"),
    ],
)
def test_the_environment_names_the_zone(value: str, zone: str) -> None:
    assert detect_system_zone({"TZ": value}).key == zone


@pytest.mark.parametrize("value", ["CET-1CEST,M3.5.0,M10.5.0/3", "", "../../etc/passwd", "\x00"])
def test_an_invalid_zone_falls_back_to_that_of_the_machine(value: str) -> None:
    assert detect_system_zone({"TZ": value}) == detect_system_zone({})
