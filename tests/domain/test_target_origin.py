"""Files and hands: which of the two something comes from."""

import pytest

from herdbeat.domain.target import CreatedVia, is_unmanaged


@pytest.mark.parametrize("origin", [*CreatedVia, "apply deploy.yml:1:1"])
def test_what_came_by_a_way_in_was_made_by_hand(origin: str) -> None:
    assert is_unmanaged(origin)


@pytest.mark.parametrize("origin", ["herdbeat.yaml:9:3", "", "cli:1:1", "apply.yaml:1:1", "/x y/cli:2:2"])
def test_a_place_in_a_file_is_not(origin: str) -> None:
    assert not is_unmanaged(origin)
