"""The dashboard in a real Chromium, over the demo fleet: live, by keyboard, on a phone, in the dark, without scripts.

A picture of each page lands in `.system/screenshots`. The last test makes those of the documentation; with
`HERDBEAT_PICTURES=docs/img` it writes them there.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from tests.support.planner_contract import make_session
from tests.system.parts import WORK_FOLDER, read_states

from herdbeat.bootstrap.config import load_config
from herdbeat.domain.planner import ActionKind, PlannedAction, ToolUse
from herdbeat.store.location import create_store, store_location

pytestmark = pytest.mark.needs("chromium")

RUN_PAGE = "/runs/RUN"
"""The page of a run of an agent: its id differs from demo to demo."""
PAGES = ("/", "/schedules", "/schedules/queue-depth/default", "/runs", RUN_PAGE, "/timeline", "/system", "/planner")
SCREENSHOTS = WORK_FOLDER / "screenshots"
PICTURES = Path(os.environ.get("HERDBEAT_PICTURES") or SCREENSHOTS)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
STARTED = re.compile(r"dashboard: (http://\S+)")


@dataclass(slots=True)
class ShownDemo:
    """A demo fleet that runs, and a browser that looks at it."""

    url: str
    folder: Path
    browser: Browser
    token: str = ""
    requested: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "/", **options: Any) -> Page:
        settings: dict[str, Any] = {"viewport": DESKTOP, **options}
        page = self.browser.new_context(**settings).new_page()
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self._note_error(message))  # noqa: PLW0108 - slots refuse a bound method
        page.goto(f"{self.url}{path.replace('RUN', self.agent_run)}")
        return page

    def _note_error(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"{message.text} {message.location['url']}")

    @property
    def agent_run(self) -> str:
        """The newest run that called tools."""
        runs = json.loads(self.call("runs", "reviewer/pulls", "--json"))["items"]
        return str(next(each["id"] for each in runs if each["status"] == "succeeded"))

    def call(self, *words: str) -> str:
        """Run a command in another terminal."""
        command = [str(Path(sys.executable).parent / "herdbeat"), *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownDemo]:
    cache = tmp_path_factory.mktemp("demo")
    log = cache / "up.log"
    command = [str(Path(sys.executable).parent / "herdbeat"), "up", "--demo", "--port", "0"]
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "LC_ALL": "C.UTF-8"}
    environ.pop("HERDBEAT_NO_SERVER", None)
    with log.open("wb") as output, sync_playwright() as playwright:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environ)
        browser = playwright.chromium.launch(executable_path=read_states()["chromium"].program, args=["--no-sandbox"])
        try:
            shown = ShownDemo(wait_for_url(log), cache / "herdbeat" / "demo", browser)
            # A page of the demo has something to see within ten seconds: wait for the surge, and for its rule.
            page = shown.open("/schedules/queue-depth/default")
            expect(page.locator("#hints")).to_contain_text("rule:surge", timeout=30_000)
            yield shown
        finally:
            browser.close()
            process.terminate()
            process.wait(30)


@pytest.fixture(autouse=True)
def _close_pages(demo: ShownDemo) -> Iterator[None]:
    """Every page that stays open follows the live events of the demo: fifty of them kept two cores busy."""
    yield
    for context in demo.browser.contexts:
        context.close()


def wait_for_url(log: Path) -> str:
    import time

    deadline = time.monotonic() + 30
    while (found := STARTED.search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
    return found[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_accessible_in_both_themes(demo: ShownDemo, path: str, scheme: str) -> None:
    page = demo.open(path, color_scheme=scheme, reduced_motion="reduce")

    found = Axe().run(page, options={"rules": {"target-size": {"enabled": True}}}).response
    violations = found["violations"]

    assert len(found["passes"]) > 10
    assert [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in violations] == []
    save_screenshot(page, path, scheme)


@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_wider_than_a_phone(demo: ShownDemo, path: str) -> None:
    page = demo.open(path, viewport=PHONE, has_touch=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    save_screenshot(page, path, "phone")


@pytest.mark.parametrize("path", PAGES)
def test_at_twice_the_size_nothing_is_cut_off(demo: ShownDemo, path: str) -> None:
    page = demo.open(path, viewport={"width": 640, "height": 450}, device_scale_factor=2)

    cut = page.evaluate(
        """[...document.querySelectorAll("main *, header *")].filter((each) => {
            const box = each.getBoundingClientRect();
            return box.width && box.right > document.documentElement.clientWidth + 1
                && !each.closest(".chart-box, .log, pre, .visually-hidden, .menu form, .menu div, svg");
        }).map((each) => each.outerHTML.slice(0, 100))"""
    )

    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_nothing_moves_for_who_asked_for_less_motion(demo: ShownDemo) -> None:
    calm = demo.open("/", reduced_motion="reduce")
    usual = demo.open("/", reduced_motion="no-preference")
    for page in (calm, usual):
        expect(page.locator("#live")).to_have_attribute("data-state", "on")

    assert calm.evaluate("document.getAnimations().length") == 0
    assert usual.evaluate("document.getAnimations().length") > 0


@pytest.mark.parametrize("path", PAGES)
def test_what_has_the_focus_is_outlined(demo: ShownDemo, path: str) -> None:
    page = demo.open(path)

    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # the end of a short page
        outline = page.evaluate(
            """(({ outlineStyle, outlineWidth }) => [outlineStyle, parseFloat(outlineWidth)])(
                getComputedStyle(document.activeElement))"""
        )
        tag = page.evaluate("document.activeElement.outerHTML.slice(0, 100)")
        assert outline[0] != "none", tag
        assert outline[1] >= 1, tag


@pytest.mark.parametrize("path", PAGES)
def test_a_finger_hits_every_button_of_a_phone(demo: ShownDemo, path: str) -> None:
    page = demo.open(path, viewport=PHONE, has_touch=True)

    small = page.evaluate(
        """[...document.querySelectorAll("button, .button, .quiet-button, .tabs a, select, input[type=search]")]
            .map((each) => [each.getBoundingClientRect(), each.outerHTML.slice(0, 100)])
            .filter(([box]) => box.width && box.height && box.height < 44).map(([, html]) => html)"""
    )

    assert [each for each in small if "log-search" not in each] == []


def test_a_bar_of_the_timeline_leads_to_its_run_and_a_name_to_its_schedule(demo: ShownDemo) -> None:
    page = demo.open("/timeline?q=heartbeat")

    page.locator("#timeline svg a:has(.bar)").last.click()
    expect(page).to_have_url(re.compile("/runs/"))
    expect(page.locator("h1 a.name")).to_have_text("heartbeat")
    page.go_back()
    page.locator("#timeline svg a:has(.row-label)").click()

    expect(page).to_have_url(re.compile("/schedules/heartbeat/default"))


def save_screenshot(page: Page, path: str, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    stem = {"/": "now", "/schedules/queue-depth/default": "schedule", RUN_PAGE: "run"}.get(path, path.strip("/"))
    page.screenshot(path=SCREENSHOTS / f"dashboard-{stem}-{name}.png")


def test_a_change_in_a_terminal_appears_without_a_reload(demo: ShownDemo) -> None:
    page = demo.open("/schedules?q=tidy")
    row = page.locator("tr[data-open]")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    page.evaluate("window.isTheSamePage = true")

    demo.call("pause", "tidy", "--for", "1h")

    expect(row).to_contain_text("paused", timeout=10_000)
    demo.call("resume", "tidy")
    expect(row).not_to_contain_text("paused", timeout=10_000)
    assert page.evaluate("window.isTheSamePage") is True


def test_an_open_menu_and_what_was_typed_there_survive_live_updates(demo: ShownDemo) -> None:
    page = demo.open("/schedules/queue-depth/default")
    page.locator("#head summary", has_text="Hint").click()
    page.locator("#head input[name=every]").fill("30s")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(640, 890)
    shown_at = page.locator("#live time").inner_text()

    expect(page.locator("#live time")).not_to_have_text(shown_at, timeout=20_000)

    expect(page.locator("#head input[name=every]")).to_have_value("30s")
    expect(page.locator("#head input[name=every]")).to_be_visible()


def test_a_bulk_pause_names_its_count_and_its_undo_restores_what_was(demo: ShownDemo) -> None:
    demo.call("pause", "heartbeat", "--reason", "before")
    page = demo.open("/schedules?q=he")  # heartbeat, api-health, checkout, researcher/papers
    number = page.locator("tr[data-open]").count()

    page.locator(".bulk summary").last.click()
    page.get_by_role("button", name=f"Pause all {number}").click()
    expect(page.get_by_role("heading", name="Pause all 4 schedules that match he?")).to_be_visible()
    assert page.locator("html").get_attribute("data-still") is not None  # this address cannot be fetched again
    page.get_by_role("button", name="Yes, do it").click()
    expect(page.locator(".notice")).to_contain_text("schedules paused.")
    assert number == 4
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".notice")).to_contain_text("restored")

    states = {line.split("\t")[0]: line for line in demo.call("list", "--plain").splitlines()}
    assert "paused" in states["heartbeat"]  # as it was before
    assert "paused" not in states["api-health"]
    demo.call("resume", "heartbeat")


def test_keys_lead_through_the_pages_until_they_are_switched_off(demo: ShownDemo) -> None:
    page = demo.open("/")

    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_url(f"{demo.url}/schedules")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/schedules/scribe/review"))
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.locator("#keys-switch").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.keyboard.press("?")

    expect(page).to_have_url(re.compile("/schedules/scribe/review"))
    expect(page.locator("#help")).not_to_be_visible()


def test_without_scripts_one_can_read_filter_and_act(demo: ShownDemo) -> None:
    page = demo.open("/schedules", java_script_enabled=False)

    page.locator('main input[name="q"]').fill("tidy")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tr[data-open]")).to_have_count(1)
    page.locator("tr[data-open] a.name").click()
    page.get_by_role("button", name="Skip next").click()

    expect(page.locator(".notice")).to_contain_text("herdbeat skip tidy")
    demo.call("skip", "tidy", "--clear")


def test_the_theme_is_remembered_and_sent_by_the_server(demo: ShownDemo) -> None:
    page = demo.open("/", color_scheme="light")

    page.locator("summary[aria-label=Settings]").click()
    page.get_by_label("dark", exact=True).check()
    page.get_by_role("button", name="Save").click()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(11, 14, 18)"


def test_a_run_shows_its_steps_and_follows_its_log(demo: ShownDemo) -> None:
    page = demo.open("/runs?schedule=scribe/review")

    page.locator("tr[data-open] a.mono").last.click()

    expect(page.locator("#log-title")).to_be_visible()
    expect(page.locator("#why")).to_contain_text("baseline-cron")


def test_a_run_with_another_prompt_does_what_that_prompt_says(demo: ShownDemo) -> None:
    page = demo.open("/schedules/scribe/review")

    page.get_by_text("Run…").click()
    prompt = page.get_by_label("prompt for this once")
    expect(prompt).to_have_value(re.compile("Read all notes again"))
    prompt.fill("Read one note. fake:tools=1")
    page.get_by_label("wait for room").check()
    page.get_by_role("button", name="Run once").click()
    expect(page.locator(".notice")).to_contain_text("runs now with another prompt")

    page.goto(f"{demo.url}/runs?schedule=scribe/review&q=manual")
    expect(page.locator("tr[data-open]").first).to_contain_text("Done: Read one note.", timeout=20_000)


def test_the_patch_of_a_file_is_shown_with_the_next_runs(demo: ShownDemo) -> None:
    page = demo.open("/schedules/heartbeat/default")

    page.get_by_label("New interval or cron expression").fill("30 2 * * *")
    page.locator("#edit").get_by_role("button", name="Preview").click()

    expect(page.locator("#patch")).to_contain_text(
        '+  - { name: heartbeat, command: [echo, alive], cron: "30 2 * * *" }'
    )
    applied = subprocess.run(
        ["git", "apply", "--check", "-p1", "-"],
        cwd=demo.folder,
        input=page.locator("#patch").inner_text(),
        text=True,
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr


def test_a_schedule_without_a_file_is_edited_and_the_edit_undone(demo: ShownDemo) -> None:
    demo.call("create", "heartbeat/slow", "--every", "1h")
    page = demo.open("/schedules/heartbeat/slow")

    page.get_by_label("timing").fill("0 9 * * 1-5")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Next runs")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#head")).to_contain_text("09:00")
    page.get_by_role("button", name="Undo").click()

    expect(page.locator("#head")).to_contain_text("every 1h")
    demo.call("delete", "heartbeat/slow")


def test_no_request_leaves_the_host_and_no_script_fails(demo: ShownDemo) -> None:
    for path in PAGES:
        demo.open(path)

    assert {urlsplit(each).netloc for each in demo.requested} == {urlsplit(demo.url).netloc}
    deleted = "/schedules/heartbeat/slow"  # by another test, while its page was open
    assert [each for each in demo.faults if not each.endswith(deleted)] == []


def test_the_pictures_of_the_documentation_show_a_surge_from_its_begin_to_its_end(demo: ShownDemo) -> None:
    page = demo.open("/schedules/queue-depth/default", reduced_motion="reduce")
    expect(page.locator("#rules")).to_contain_text("no-match", timeout=90_000)
    expect(page.locator("#hints")).to_contain_text("rule:surge")
    PICTURES.mkdir(parents=True, exist_ok=True)

    page.set_viewport_size({"width": 1280, "height": 960})
    page.screenshot(path=PICTURES / "dashboard-schedule.png")
    now = demo.open("/", reduced_motion="reduce", viewport={"width": 1280, "height": 960})
    now.screenshot(path=PICTURES / "dashboard-now.png")
    phone = demo.open("/", reduced_motion="reduce", viewport=PHONE)
    phone.screenshot(path=PICTURES / "dashboard-phone.png")
    system = demo.open("/system?checks=1", reduced_motion="reduce", viewport={"width": 1280, "height": 960})
    hide_folder(system, demo.folder)
    system.screenshot(path=PICTURES / "dashboard-system.png")
    run = demo.open(RUN_PAGE, reduced_motion="reduce", viewport={"width": 1280, "height": 960})
    run.screenshot(path=PICTURES / "dashboard-run.png")

    assert page.locator("#beats svg .threshold").count() == 2


def hide_folder(page: Page, folder: Path) -> None:
    """Write the folder that a demo usually has in the place of this test's: a picture names no machine."""
    page.evaluate(
        """(folders) => {
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode()); )
                for (const each of folders) node.data = node.data.replace(each, "~/.cache/herdbeat/demo");
        }""",
        [str(folder), os.path.relpath(folder)],
    )


HOSTILE_FLEET = r"""
version: 1
fleet: { name: "<img src=x onerror=pwned()>" }
timezone: UTC
server: { base_path: /beat }
agents:
  - name: hostile
    runtime: command
    command: [sh, -c, 'printf "<script>pwned()</script> \033[31m<img src=x onerror=pwned()>\033[0m"; exit $(($$ % 2))']
    schedules:
      look:
        every: 2s
        max_interval: 3s
        prompt: "</textarea><script>pwned()</script>"
        tags: ['"><script>pwned()</script>']
commands:
  - name: talker
    command: [sh, -c, 'printf "\033[32mfirst\033[0m\n"; read w < gate; printf "\033[31m$w\033[0m\n"; read w < exit']
    cron: "0 0 1 1 *"
"""


def plan_hostile_session(folder: Path) -> None:
    """Write what a hostile model would say to the planner."""
    text = "<img src=x onerror=pwned()>"
    action = PlannedAction(kind=ActionKind.CLEAR_HINTS, schedule=text, reason=text, outcome=text)
    call = ToolUse(tool=text, arguments={text: text}, answer=text)
    session = replace(make_session(datetime.now(UTC)), group=text, reasoning=text, actions=(action,), calls=(call,))
    fleet = load_config(str(folder / "herdbeat.yaml"), {}, folder).fleet
    assert fleet is not None
    with closing(create_store(store_location(fleet))) as store:
        store.open()
        store.write_now(lambda tx: tx.planner_add_session(session))


@pytest.fixture(scope="module")
def hostile(demo: ShownDemo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownDemo]:
    """A fleet under a base path whose every text would be a script, if any page believed it."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "herdbeat.yaml").write_text(HOSTILE_FLEET, encoding="utf-8")
    for gate in ("gate", "exit"):  # a second reader of one pipe may still find its first writer, and read nothing
        os.mkfifo(folder / gate)
    log = folder / "up.log"
    subprocess.run([str(Path(sys.executable).parent / "herdbeat"), "apply", "--yes"], cwd=folder, check=True)
    plan_hostile_session(folder)
    command = [str(Path(sys.executable).parent / "herdbeat"), "up", "--port", "0"]
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}
    environ.pop("HERDBEAT_NO_SERVER", None)
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environ)
        try:
            shown = ShownDemo(wait_for_url(log).removesuffix("/beat"), folder, demo.browser)
            created = json.loads(shown.call("token", "create", "you", "--scope", "admin", "--json"))
            yield replace(shown, token=created["token"])
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/schedules",
        "/schedules/hostile/look",
        "/runs",
        "/runs/0001",
        "/timeline",
        "/system",
        "/planner",
        "/planner/1",
    ],
)
def test_what_a_fleet_and_its_agents_say_stays_text_under_a_base_path(hostile: ShownDemo, path: str) -> None:
    page = hostile.browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    faults: list[str] = []
    requested: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: requested.append(request.url))

    page.goto(f"{hostile.url}/beat{path}")
    page.get_by_label("Token").fill(hostile.token)  # behind a base path there may be a proxy, so one signs in
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{hostile.url}/beat{path}")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    for link in page.locator("main details > summary").all()[:6]:
        link.click()

    assert faults == []  # `pwned` is not defined: to call it would be an error
    assert page.locator("main script, main img, main b[onclick]").count() == 0
    assert {urlsplit(each).path.startswith("/beat/") for each in requested} == {True}


def test_new_lines_of_a_log_come_with_their_colours_and_without_a_reload(hostile: ShownDemo) -> None:
    run = json.loads(hostile.call("run", "talker", "--json"))["run"]
    page = hostile.browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{hostile.url}/beat/runs/{run}")
    page.get_by_label("Token").fill(hostile.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#log .ansi-green")).to_have_text("first", timeout=10_000)
    page.evaluate("window.isTheSamePage = true")

    (hostile.folder / "gate").write_text("second\n", encoding="utf-8")

    expect(page.locator("#log .ansi-red")).to_have_text("second", timeout=10_000)
    assert page.evaluate("window.isTheSamePage") is True
    (hostile.folder / "exit").write_text("end\n", encoding="utf-8")
    expect(page.locator("#head")).to_contain_text("ok", timeout=10_000)


def test_the_zone_of_every_time_is_chosen_in_the_settings_and_remembered(demo: ShownDemo) -> None:
    page = demo.open("/", timezone_id="Asia/Tokyo")

    for choice, name in (("browser", "JST"), ("utc", "UTC")):
        page.locator("summary[aria-label=Settings]").click()
        page.locator(f"input[name=zone][value={choice}]").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#live time")).to_contain_text(name)
        page.goto(f"{demo.url}/timeline")
        expect(page.locator(".page-head")).to_contain_text(f"times in {name}")


def test_the_timeline_goes_back_and_forth_in_time(demo: ShownDemo) -> None:
    page = demo.open("/timeline?range=5m")

    page.get_by_role("link", name="Earlier").click()
    expect(page).to_have_url(re.compile("until="))
    assert page.locator("svg .now").count() == 0
    page.get_by_role("link", name="Later").click()

    expect(page.locator("svg .now")).to_have_count(1)
    assert "until=" not in page.url
