"""The examples of the pages about tests, exactly as they are there, run by pytest as a reader runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


@pytest.mark.parametrize("page", ["test-your-fleet.md", "use-from-python.md"])
def test_the_pytest_example_of_a_page_passes_as_printed(page: str, tmp_path: Path) -> None:
    text = (HOWTO / page).read_text(encoding="utf-8")
    settings = re.search(r"```toml title=\"pyproject.toml\"\n(?P<text>.*?)```", text, re.DOTALL)
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", text, re.DOTALL)
    (code,) = [each for each in blocks if "async def test_" in each]
    assert settings is not None
    (tmp_path / "pyproject.toml").write_text(settings["text"], encoding="utf-8")
    (tmp_path / "test_page.py").write_text(code, encoding="utf-8")

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr
