"""Text of strangers from every kind of work source, to an agent by every way a prompt can take: it stays data.

Real processes under `herdbeat up`. The agent itself records its arguments, its input and its prompt file, and the
sources are asked afterwards what became of their items.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.bootstrap.test_hostile_work import HOSTILE
from tests.support.fake_github import REPO, TOKEN
from tests.support.fake_linear import KEY, serve_linear
from tests.support.fault_fleet import wait_until
from tests.support.running_fleet import RunningFleet
from tests.support.work_process import github_in_thread, server_in_thread

RECORDER = """\
import json, os, sys
task = next((each for each in sys.argv[1:] if each.startswith("--task-file=")), None)
prompt = open(task.partition("=")[2]).read() if task else ""
with open(os.environ["RECORD"], "a") as record:
    record.write(json.dumps([sys.argv[1:], sys.stdin.read(), prompt]) + "\\n")
"""
PROMPT_PLACES = {"stdin": "--quiet", "arg": "--task={prompt}", "file": "--task-file={prompt_file}"}
NAMES = ["$(touch PWNED).md", "a --yolo.md", "{{agent}}.md", "`touch PWNED`; x.md"]
"""File names are the ids of items of a folder, and written by strangers too."""


@contextmanager
def offer_on_github(folder: Path, texts: list[str]) -> Iterator[tuple[dict[str, str], Callable[[], int]]]:
    with github_in_thread() as github:
        for number, text in enumerate(texts, start=1):
            github.add(number, "ready", title=text[:200], body=text)
        source = {"type": "github", "repo": REPO, "api_url": github.url}
        yield source, lambda: sum(issue.state == "closed" for issue in github.issues.values())


@contextmanager
def offer_on_linear(folder: Path, texts: list[str]) -> Iterator[tuple[dict[str, str], Callable[[], int]]]:
    with server_in_thread(serve_linear) as linear:
        for number, text in enumerate(texts, start=1):
            linear.add(f"ENG-{number}", "ready", title=text[:200], description=text)
        done = lambda: sum(issue.state == "S-done" for issue in linear.issues.values())  # noqa: E731
        yield {"type": "linear", "api_url": linear.url}, done


@contextmanager
def offer_in_a_folder(folder: Path, texts: list[str]) -> Iterator[tuple[dict[str, str], Callable[[], int]]]:
    inbox = folder / "inbox"
    inbox.mkdir()
    for number, text in enumerate(texts):
        name = NAMES[number] if number < len(NAMES) else f"{number}.md"
        (inbox / name).write_text(text.encode("utf-8", "replace").decode(), encoding="utf-8")
    yield {"type": "directory", "path": "inbox"}, lambda: len(list((inbox / "done").glob("*.json")))


@contextmanager
def offer_by_a_program(folder: Path, texts: list[str]) -> Iterator[tuple[object, Callable[[], int]]]:
    items = [
        {"id": f"--id={number}", "title": text, "body": text, "url": text, "labels": [text]}
        for number, text in enumerate(texts)
    ]
    (folder / "items").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    append = [sys.executable, "-S", "-c", "import sys; open('done', 'a').write(sys.stdin.readline())"]
    source = {"type": "command", "list": ["cat", "items"], "report": append}
    yield source, lambda: len((folder / "done").read_text().splitlines()) if (folder / "done").exists() else 0


OFFERS: dict[str, Callable[[Path, list[str]], AbstractContextManager[tuple[object, Callable[[], int]]]]] = {
    "github": offer_on_github,
    "linear": offer_on_linear,
    "directory": offer_in_a_folder,
    "command": offer_by_a_program,
}


def build_fleet(channel: str, source: object, folder: Path) -> dict[str, object]:
    runtime = {
        "program": sys.executable,
        "argv": [str(folder / "recorder.py"), "{options}", PROMPT_PLACES[channel], "--end"],
        "prompt": channel,
        "options": {"model": ["--model={model}"]},
    }
    schedule = {"every": "1s", "prompt": "Fix {{schedule}}.", "work_source": source}
    agent = {"name": "worker", "runtime": "recorder", "model": "small", "env": {"RECORD": str(folder / "record")}}
    return {"version": 1, "runtimes": {"recorder": runtime}, "agents": [{**agent, "schedules": {"backlog": schedule}}]}


def read_prompt(channel: str, entry: list[object]) -> str:
    """Return the prompt of one start, and check that its arguments are those of the fleet file and no more."""
    argv, stdin, file = entry
    assert isinstance(argv, list)
    task = argv[1]
    assert (len(argv), argv[0], argv[2]) == (3, "--model=small", "--end"), "no text becomes an argument of its own"
    assert task.startswith(PROMPT_PLACES[channel].partition("{")[0])
    return str({"stdin": stdin, "arg": task.partition("=")[2], "file": file}[channel])


@pytest.mark.parametrize(
    ("kind", "channel"), [("github", "arg"), ("linear", "file"), ("directory", "stdin"), ("command", "arg")]
)
def test_hostile_text_of_every_source_is_data_on_every_way_to_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, channel: str
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("LINEAR_API_KEY", KEY)
    texts = [text for name, text in HOSTILE.items() if channel != "arg" or name != "huge"]
    fleet = RunningFleet(tmp_path)
    (tmp_path / "recorder.py").write_text(RECORDER, encoding="utf-8")

    with OFFERS[kind](tmp_path, texts) as (source, count_done):
        fleet.write(json.dumps(build_fleet(channel, source, tmp_path)))
        with fleet.up("--no-server"):
            wait_until(lambda: count_done() == len(texts), lambda: fleet.call("work", "--all").stdout)
        entries = [json.loads(line) for line in (tmp_path / "record").read_text(encoding="utf-8").splitlines()]

    assert len(entries) == len(texts), "each item was worked on once"
    for prompt in (read_prompt(channel, entry) for entry in entries):
        assert prompt.startswith("Fix backlog.\n\n---\n\n## Work Item\n\n**Title:** "), "our words come first"
        assert prompt.count("</data>") == 1, "the text does not close the tags around it"
        assert not any(ord(char) < 32 and char != "\n" for char in prompt)
        assert len(prompt) < 210_000
    assert not list(tmp_path.rglob("PWNED")), "nothing of it was executed"
