"""The examples of README.md and docs/howto/use-from-python.md, exactly as they are there."""

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from herdbeat import Herd
from herdbeat.events import Event
from herdbeat.testing import open_herd

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "use-from-python.md"


def example(page: Path, mark: str) -> str:
    found = re.search(
        rf"^<!-- {mark} -->\n```python\n(?P<code>.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None, f"{page.name} has no example marked {mark}"
    return found["code"]


def played(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "example.py", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("page", "mark"), [(ROOT / "README.md", "herd"), (PAGE, "script")])
async def test_the_script_schedules_what_it_shows(page: Path, mark: str, tmp_path: Path) -> None:
    herd = played(example(page, mark))["herd"]

    async with open_herd(tmp_path, of=herd) as driven:
        await driven.advance(timedelta(hours=6))

        assert {outcome for outcome, _, _ in driven.outcomes("poll")} == {"ran"}
        assert driven.outcomes("standup") == [("ran", "", 1)]


@pytest.mark.parametrize("mark", ["lifespan", "workers"])
async def test_the_application_has_the_herd_while_it_lives(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", web_framework())
    names = played(example(PAGE, mark))
    herd: Herd = names["herd"]

    async with names["app"].lifespan(names["app"]):
        during = herd.is_running

    assert (during, herd.is_running) == (True, False)


def web_framework() -> ModuleType:
    """A minimal application that takes a lifespan."""

    class FastAPI:
        def __init__(self, lifespan: Callable[[Any], Any]) -> None:
            self.lifespan = lifespan

    module = ModuleType("fastapi")
    module.FastAPI = FastAPI  # type: ignore[attr-defined]
    return module


def test_the_program_without_an_event_loop_runs_through() -> None:
    names = played(example(PAGE, "background"))

    names["main"]()

    assert [run.status for run in names["herd"].runs("tidy")] == ["succeeded"]


@pytest.mark.parametrize("mark", ["control", "scheduler"])
async def test_the_trigger_example_runs_as_printed(mark: str) -> None:
    async with asyncio.timeout(60):
        await played(example(PAGE, mark))["main"]()


async def test_the_listener_example_hears_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    herd: Herd = played(example(PAGE, "listener"))["herd"]

    @herd.by_hand()
    def fails() -> None:
        raise ValueError("the queue is closed")

    async with herd:
        await herd.trigger("fails", wait=True)

    assert "fails/default failed: ValueError: the queue is closed; next run None" in capsys.readouterr().out


def test_the_reference_lists_every_event_with_its_fields() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    for event in get_args(Event):
        row = next((line for line in text.splitlines() if f"`{event.__name__}`" in line), "")
        assert [each.name for each in fields(event) if f"`{each.name}`" not in row] == ["at"], event.__name__
