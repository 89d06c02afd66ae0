"""Every wrong value at every key of every good file."""

from pathlib import Path

import pytest
from tests.config.test_fuzz import CASES, GOOD_FILES, check_mutations


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", GOOD_FILES, ids=lambda path: path.relative_to(CASES).as_posix())
def test_every_wrong_value_at_every_key_is_reported_not_raised(file: Path, tmp_path: Path) -> None:
    check_mutations(file, tmp_path, stride=1)
