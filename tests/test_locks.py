"""The lock files name a hash for every package, and no host: an installation uses the registry of its machine."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIP_LOCKS = sorted(ROOT.glob("requirements*.lock"))
NPM_LOCKS = sorted(ROOT.glob("tests/system/clis/*/package-lock.json"))


@pytest.mark.parametrize("lock", [*PIP_LOCKS, *NPM_LOCKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_lock_names_no_host(lock: Path) -> None:
    assert "://" not in lock.read_text(encoding="utf-8")


@pytest.mark.parametrize("lock", PIP_LOCKS, ids=lambda path: path.name)
def test_every_python_package_has_a_hash(lock: Path) -> None:
    packages = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())

    assert packages
    assert [each for each in packages if "==" not in each or "--hash=sha256:" not in each] == []


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda path: path.parent.name)
def test_every_package_of_an_agent_cli_has_a_hash(lock: Path) -> None:
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]

    assert [
        name for name, each in packages.items() if name and not each.get("integrity", "").startswith("sha512-")
    ] == []
    assert (
        json.loads((lock.parent / "package.json").read_text(encoding="utf-8"))["dependencies"]
        == packages[""]["dependencies"]
    )


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda path: path.parent.name)
def test_the_docs_name_the_tested_version_of_each_cli(lock: Path) -> None:
    (version,) = json.loads((lock.parent / "package.json").read_text(encoding="utf-8"))["dependencies"].values()

    assert f" {version}" in (ROOT / "docs" / "howto" / "check-an-agent.md").read_text(encoding="utf-8")
