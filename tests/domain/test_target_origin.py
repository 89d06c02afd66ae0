"""Whether a target or schedule comes from the files, or was created by a command."""

import pytest

from herdbeat.domain.target import CreatedVia, is_unmanaged


@pytest.mark.parametrize("origin", [*CreatedVia, "apply deploy.yml:1:1"])
def test_an_origin_of_a_command_is_unmanaged(origin: str) -> None:
    assert is_unmanaged(origin)


@pytest.mark.parametrize("origin", ["herdbeat.yaml:9:3", "", "cli:1:1", "apply.yaml:1:1", "/x y/cli:2:2"])
def test_a_place_in_a_file_is_managed(origin: str) -> None:
    assert not is_unmanaged(origin)
