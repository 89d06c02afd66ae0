"""The version is stated once, as a literal, and everything else derives it."""

import ast
import subprocess
import sys
from pathlib import Path

from herdbeat import __version__

ROOT = Path(__file__).parent.parent


def test_the_version_is_a_literal() -> None:
    module = ast.parse((ROOT / "src" / "herdbeat" / "__init__.py").read_text(encoding="utf-8"))

    values = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and [ast.unparse(name) for name in node.targets] == ["__version__"]
    ]

    assert [ast.unparse(value) for value in values] == [repr(__version__)]


def test_the_build_takes_the_version_from_the_package() -> None:
    command = [sys.executable, "-m", "hatchling", "metadata", "version"]

    built = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    assert built == __version__
