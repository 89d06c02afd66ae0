"""docs/reference/configuration.md: every key, where it may stand, its form, default and meaning."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from herdbeat.config.compat.agentd import AGENTD_AGENT, AGENTD_WORKFLOW, SOURCE_TABLES, UNSUPPORTED_SOURCES
from herdbeat.config.schema.fleet import AGENT_REFERENCE, FLEET
from herdbeat.config.schema.json_schema import KeyRow, build_key_row, list_key_rows
from herdbeat.config.schema.table import Table
from herdbeat.config.schema.types import FieldType
from scripts import markdown

_SCHEDULE = "A schedule"
_HEAD = ("key", "form", "default", "meaning")

_INTRO = """\
A fleet is one file, `herdbeat.yaml`, and the files it leads to. Without a path, herdbeat looks for `herdbeat.yaml`,
then `herdctl.yaml`, then `.agentd/`, each in this folder and in all folders above. `$HERDBEAT_CONFIG` or `--config`
name another place.

- The meaning is YAML 1.2's: `no`, `off` and `12:30` are texts. A key written twice is an error.
- `${NAME}` and `${NAME:-default}` in a value are taken from the environment, then from `.env` beside the fleet file.
- Paths are relative to the file they stand in.
- Keys that begin with `x-` are yours; herdbeat passes over them.
- A file may have at most 1 MiB and 50 levels.
- Keys in **bold** are required.

`herdbeat schema` prints the same as JSON Schema, for [editors](../howto/editor-schema.md); `herdbeat config show`
prints what is in force, and which line says so. Keys about running, such as `overlap` or `store`, are checked and shown
today; the engine will act on them.
"""

_PLACES = {
    "A fleet file": "the top level of `herdbeat.yaml`",
    "A fleet block": "`fleet`",
    "A server block": "`server`",
    "A retention block": "`retention`",
    "An egress block": "`egress`",
    "A webhooks block": "`webhooks`",
    "A web block": "`web`",
    "Defaults": "`defaults`",
    "A backoff": "`backoff` of a schedule, a target or `defaults`",
    "A retry": "`retry` of a schedule, a target or `defaults`",
    "A budget": "`budget` of a schedule, a target, `defaults` or the whole fleet; [who shares it](policies.md#budget)",
    "A rule": "the entries of `adapt`, and of each set under `rules`",
    "A working directory": "`working_directory` of an agent or `defaults`, if it is not just a path",
    "An MCP server": "the values of `mcp_servers`",
    "A plugin": "the entries of `plugins`, if they are not just paths",
    "A session": "`session` of an agent or `defaults`",
    "A docker block": "`docker` of an agent or `defaults`",
    "An instances block": "`instances` of a target or `defaults`",
    "A work source": "`work_source` of a schedule, an agent or `defaults`",
    "Labels": "`labels` of a work source",
    "An auth": "`auth` of a work source",
    "A notify channel": "the values of `notify`",
    "An agent": "the entries of `agents`, and an agent's own file",
    "A hooks block": "`hooks` of a target",
    "A hook": "the entries of `after_run` and `on_error`",
    "A schedule": "the values of `schedules`; for a target with one schedule, right beside its name",
    "A tool policy": "`tool_policy` of a schedule or an agent",
    "An endpoint": "the entries of `endpoints`",
    "A command": "the entries of `commands`",
    "A callable": "the entries of `callables`",
    "A reference": "the entries of `agents`, instead of an agent",
    "A sub-fleet": "the entries of `fleets`",
    "An import": "the entries of `imports`",
}
"""Where each table stands in a file. A new table without its place fails the generator."""


def page() -> str:
    rows = list_key_rows()
    titles = list(dict.fromkeys(row.where for row in rows))
    shared = {row.name: row for row in rows if row.where == _SCHEDULE}
    sections = [_table(title, [row for row in rows if row.where == title], shared) for title in titles]
    if AGENT_REFERENCE.title not in titles:
        sections.append(
            _table(AGENT_REFERENCE.title, [build_key_row(AGENT_REFERENCE, key) for key in AGENT_REFERENCE.keys], shared)
        )
    return markdown.page("Configuration", _INTRO, *sections, _agentd())


def _table(title: str, rows: Sequence[KeyRow], shared: dict[str, KeyRow]) -> str:
    """The keys of one table. Those it has in common with a schedule are named, and explained there."""
    borrowed = [] if title == _SCHEDULE else [row.name for row in rows if _is_borrowed(row, shared)]
    borrowed = borrowed if len(borrowed) > 5 else []
    own = [row for row in rows if row.name not in borrowed and not row.unsupported_reason]
    return markdown.section(
        title,
        f"Where: {_PLACES[title]}.",
        markdown.table(_HEAD, [_cells(row) for row in own]),
        _borrowed_line(borrowed),
        _without_effect((row.name, row.unsupported_reason) for row in rows if row.unsupported_reason),
    )


def _is_borrowed(row: KeyRow, shared: dict[str, KeyRow]) -> bool:
    other = shared.get(row.name)
    return other is not None and (row.value_type, row.meaning) == (other.value_type, other.meaning)


def _borrowed_line(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"And these keys of [a schedule](#a-schedule), with the same meaning: {markdown.codes(names)}."


def _cells(row: KeyRow) -> tuple[str, str, str, str]:
    name = markdown.code(row.name)
    also = f" Also written {markdown.codes(row.aliases)}." if row.aliases else ""
    return f"**{name}**" if row.is_required else name, _form(row), row.default, row.meaning + also


def _form(row: KeyRow) -> str:
    """The form of a value, with a link to the table of its own keys if it has one."""
    inner = _inner_tables().get((row.where, row.name))
    return f"[{row.value_type}](#{inner.lower().replace(' ', '-')})" if inner else row.value_type


@cache
def _inner_tables() -> dict[tuple[str, str], str]:
    """For each key, by table and name, the table that its value is, or is a list or a mapping of."""
    found: dict[tuple[str, str], str] = {}
    waiting: list[Table] = [FLEET]
    while waiting:
        table = waiting.pop()
        for key in table.keys:
            for inner in _nearest_tables(key.field_type):
                found.setdefault((table.title, key.name), inner.title)
                waiting.append(inner)
    return found


def _nearest_tables(field_type: FieldType[object]) -> Iterator[Table]:
    if isinstance(field_type, Table):
        yield field_type
        return
    for inner in field_type.inner_types():
        yield from _nearest_tables(inner)


def _without_effect(keys: Iterable[tuple[str, str]]) -> str:
    """Keys of other tools, and why they do nothing here."""
    listed = "; ".join(f"`{name}` ({why})" for name, why in keys)
    return f"Accepted without effect, with a warning: {listed}." if listed else ""


def _agentd() -> str:
    """The keys of agentd's own files: they keep their meaning, so only their names are listed."""
    lines = [
        f"Agents (`.agentd/agents/*.yml`): {_served(AGENTD_AGENT)}.",
        _without_effect((key.name, key.unsupported_reason) for key in AGENTD_AGENT.keys if key.unsupported_reason),
        f"Workflows (`.agentd/workflows/*.yml`): {_served(AGENTD_WORKFLOW)}.",
        f"Types of `source`: {markdown.codes(SOURCE_TABLES)}.",
        f"Not served, with a warning: {markdown.codes(UNSUPPORTED_SOURCES)}.",
    ]
    intro = "[Use an agentd folder as it is](../howto/use-an-agentd-folder.md) shows how they are read."
    return markdown.section("Files of agentd", intro, *lines)


def _served(table: Table) -> str:
    return markdown.codes(key.name for key in table.keys if not key.unsupported_reason)
