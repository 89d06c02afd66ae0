"""The pages say what the code does: nothing is missing, nothing is outdated, every example is run."""

import ast
import doctest
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from textwrap import indent

import pytest
from scripts.examples import pages, played
from scripts.pages import PAGES

import herdbeat
from herdbeat.bootstrap.config import load_config
from herdbeat.cli.spec import COMMON_FLAGS, TOP_LEVEL_FLAGS, CliCommand
from herdbeat.cli.table import COMMANDS
from herdbeat.config.schema.fleet import FLEET, list_tables
from herdbeat.config.schema.policies import POLICIES
from herdbeat.config.schema.table import Field
from herdbeat.domain.beat import BeatOutcome, MissedReason, SkipReason
from herdbeat.domain.change import ChangeKind
from herdbeat.domain.decision import Source, StepKind
from herdbeat.domain.run import RunStatus
from herdbeat.domain.target import TargetKind
from herdbeat.domain.trigger import TriggerKind
from herdbeat.error_codes import Code
from herdbeat.prompts import VARIABLES
from herdbeat.service.queries.hints import HintState
from herdbeat.service.queries.schedule_state import DisplayState

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\]\(([^)\s]+)\)")
PYCON = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RULE = re.compile(r'^<a id="([^"]+)"></a>\n### (?:.*?)(?=^<a id=|\Z)', re.MULTILINE | re.DOTALL)
TEST_NAME = re.compile(r"^- `(tests/[^`]+)`$", re.MULTILINE)
FLEET_BLOCK = re.compile(
    r"^(<!-- (?:other |broken )?file: \S+ -->\n)?```yaml[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]

    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)

    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections(page: str) -> dict[str, str]:
    """The parts of a page of the reference, by their headings."""
    first, *others = re.split(r"^## ", read(REFERENCE / page), flags=re.MULTILINE)
    parts = {"": first}
    for other in others:
        title, _, text = other.partition("\n")
        parts[title.strip("`")] = text
    return parts


def relative_links(page: Path) -> Iterator[str]:
    """Where a page leads within the checkout. What stands in a block is shown, not followed."""
    for link in LINK.findall(FENCED.sub("", read(page))):
        if "://" not in link and not link.startswith("#"):
            yield link.partition("#")[0]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert read(REFERENCE / name) == PAGES[name](), "run: make reference"


@pytest.mark.parametrize("title", [table.title for table in list_tables()])
def test_the_reference_has_every_key_of_a_table(title: str) -> None:
    table = sections("configuration.md")[title]

    names = [key.name for table in list_tables() if table.title == title for key in table.keys]
    assert [name for name in names if f"`{name}`" not in table] == []


def test_the_reference_has_every_other_name_of_a_key() -> None:
    page = read(REFERENCE / "configuration.md")

    aliases = {alias for table in list_tables() for key in table.keys for alias in key.aliases}
    assert [alias for alias in sorted(aliases) if f"`{alias}`" not in page] == []


def test_every_command_and_option_that_operators_agents_are_taught_exists() -> None:
    known = {command.name: {name for option in command.options for name in option.names} for command in COMMANDS}
    common = {name for option in COMMON_FLAGS for name in option.names}
    text = (Path(__file__).parents[1] / "SKILL.md").read_text(encoding="utf-8")

    taught = [words.split() for words in re.findall(r"`herdbeat ([a-z][^`]*)`", text)]

    assert len(taught) > 15
    for name, *words in taught:
        assert name in known, name
        unknown = {word for word in words if word.startswith("--")} - known[name] - common
        assert not unknown, (name, unknown)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_reference_has_every_command_with_its_options(command: CliCommand) -> None:
    page = sections("cli.md")[f"herdbeat {command.name}"]

    words = [argument.name for argument in command.arguments]
    words += [name for option in command.options for name in option.names]
    words += command.names[1:]
    assert [word for word in words if word not in page] == []


def test_the_reference_has_the_options_that_every_command_takes() -> None:
    page = sections("cli.md")

    shared = page["Options of every command"] + page["herdbeat` alone"]
    assert [name for option in (*COMMON_FLAGS, *TOP_LEVEL_FLAGS) for name in option.names if name not in shared] == []


@pytest.mark.parametrize("code", Code)
def test_every_problem_code_has_its_own_heading(code: Code) -> None:
    text = sections("problems.md")[code]

    assert code.info.cause in text
    assert code.info.fix in text


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Trigger kinds", TriggerKind),
        ("Target kinds", TargetKind),
        ("Sources", Source),
        ("Steps of a trace", StepKind),
        ("Beat outcomes", BeatOutcome),
        ("Schedule states", DisplayState),
        ("Run states", RunStatus),
        ("Skip reasons", SkipReason),
        ("Missed reasons", MissedReason),
        ("Hint states", HintState),
        ("Changes", ChangeKind),
    ],
)
def test_the_reference_has_every_word_of_a_closed_set(title: str, words: type[StrEnum]) -> None:
    section = sections("words.md")[title]

    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == [word.value for word in words]


@pytest.mark.parametrize("kind", TriggerKind)
def test_every_kind_of_trigger_has_its_own_heading(kind: TriggerKind) -> None:
    assert kind in sections("triggers.md")


@pytest.mark.parametrize("key", POLICIES, ids=lambda key: key.name)
def test_every_policy_has_its_own_entry(key: Field[object]) -> None:
    entry = sections("policies.md")[key.name]

    assert len(entry.split()) > 3
    assert [alias for alias in key.aliases if f"`{alias}`" not in entry] == []


def test_the_reference_has_every_name_that_a_prompt_may_use() -> None:
    page = read(REFERENCE / "prompts.md")

    assert [row.name for row in VARIABLES if f"| `{row.name}` |" not in page] == []


def test_the_reference_has_every_public_python_name() -> None:
    page = read(REFERENCE / "python.md")

    assert [name for name in herdbeat.__all__ if name not in page] == []


@pytest.mark.parametrize(
    "page",
    sorted({*pages(), *ROOT.glob("*.md"), *ROOT.glob(".github/*.md")}),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert [link for link in relative_links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = read(page)

    assert played(text, tmp_path) == text, "run: make reference"


OTHER_PROGRAMS = ("scrape_configs:", "groups:", "display_information:")
"""How blocks begin that are read by Prometheus and Slack."""

TWO_PLACES = ("ok:",)
"""How blocks begin whose lines belong to different places of a file."""


def unplayed_fleets() -> dict[str, str]:
    """Blocks of YAML that no story plays: whole fleets, and pieces of one."""
    return {
        f"{page.relative_to(ROOT)} {number}": text
        for page in pages()
        for number, (mark, text) in enumerate(FLEET_BLOCK.findall(read(page)), start=1)
        if not mark and not text.startswith((*OTHER_PROGRAMS, *TWO_PLACES))
    }


def as_fleet(text: str) -> str:
    """Return a fleet with these keys: at its top if they belong there, else in an agent with a schedule."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    key = lines[0].partition(":")[0]
    if key in {field.name for field in FLEET.keys}:
        return text
    timing = "" if key in {"every", "cron", "at"} else "    every: 1h\n"
    return f"agents:\n  - name: shown\n    prompt: Work.\n{timing}{indent(text, ' ' * 4)}"


@pytest.mark.parametrize("text", unplayed_fleets().values(), ids=unplayed_fleets())
def test_a_piece_of_a_fleet_on_a_page_is_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "marketing").mkdir()
    (tmp_path / "marketing" / "herdctl.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / ".agentd").mkdir()
    (tmp_path / "herdbeat.yaml").write_text(as_fleet(text), encoding="utf-8")

    result = load_config(str(tmp_path / "herdbeat.yaml"), {"SLACK_URL": "https://hooks.slack.com/services/x"}, tmp_path)

    assert [f"{each.where}: {each.message}" for each in result.errors] == []


@pytest.mark.parametrize(
    "page", [page for page in pages() if PYCON.search(read(page))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_line_of_python_on_a_page_returns_what_the_page_says(page: Path) -> None:
    source = "\n".join(PYCON.findall(read(page)))
    examples = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    told: list[str] = []

    doctest.DocTestRunner(verbose=False).run(examples, out=told.append)

    assert "".join(told) == ""


def test_every_decision_is_listed() -> None:
    listed = set(relative_links(ROOT / "docs" / "decisions" / "index.md"))

    assert {path.name for path in (ROOT / "docs" / "decisions").glob("0*.md")} == listed


def rules() -> list[re.Match[str]]:
    return list(RULE.finditer(read(ROOT / "docs" / "understand" / "semantics.md")))


@cache
def list_tests(path: Path) -> frozenset[str]:
    """The tests of a module by name, those of a class as `Class::test`. A state machine is a class that is assigned."""
    found: set[str] = set()
    for node in ast.parse(read(path)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name, body=body):
                found |= {f"{name}::{each.name}" for each in body if isinstance(each, ast.FunctionDef)}
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase")):
                found.add(name)
    return frozenset(found)


def is_test(name: str) -> bool:
    path, _, test = name.partition("::")
    is_named_as_test = test.rpartition("::")[2].lower().startswith("test")
    return is_named_as_test and (ROOT / path).is_file() and test in list_tests(ROOT / path)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule[1])
def test_every_exact_rule_names_tests_that_exist(rule: re.Match[str]) -> None:
    names = TEST_NAME.findall(rule[0])

    assert names, "no test proves this rule"
    assert [name for name in names if not is_test(name)] == []


def test_every_exact_rule_has_an_anchor_of_its_own() -> None:
    anchors = [rule[1] for rule in rules()]

    assert len(set(anchors)) == len(anchors) == read(ROOT / "docs" / "understand" / "semantics.md").count("\n### ")
