from pathlib import Path

import pytest
from tests.support.config_folder import ConfigFolder


@pytest.fixture
def folder(tmp_path: Path) -> ConfigFolder:
    return ConfigFolder(tmp_path)
