from pathlib import Path

import pytest
from tests.config.folder import ConfigFolder


@pytest.fixture
def folder(tmp_path: Path) -> ConfigFolder:
    return ConfigFolder(tmp_path)
