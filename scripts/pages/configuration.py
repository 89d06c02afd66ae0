"""docs/reference/configuration.md: every key with its table, type, default and meaning, from config/schema."""

from collections.abc import Iterator, Sequence

from herdbeat.config.compat.agentd import AGENTD_AGENT, AGENTD_WORKFLOW, SOURCE_TABLES, UNSUPPORTED_SOURCES
from herdbeat.config.schema.fleet import AGENT_REFERENCE, list_tables
from herdbeat.config.schema.schedule import SCHEDULE
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.types import FieldType
from scripts import markdown

_HEAD = ("key", "form", "default", "meaning")

_INTRO = """\
A fleet is defined by one file, `herdbeat.yaml`, and the files that it refers to. herdbeat looks for `herdbeat.yaml`,
then `herdctl.yaml`, then `.agentd/`, each in the current directory and its parent directories. Use `--config` or
`$HERDBEAT_CONFIG` to select another file.

- The format is YAML 1.2: `no`, `off` and `12:30` are strings. A duplicate key is an error.
- `${NAME}` and `${NAME:-default}` in a value are replaced from the environment, or from `.env` next to the fleet file.
  That file also completes the environment of the node: tokens, logins of agents and variables named in `env:` may
  stand in it. It is read at the start. A variable that is really set wins.
  `$${NAME}` is the text `${NAME}`, for a shell.
- <a id="references"></a>Where a text is for a program, a request or a model, the ledger has it as it is written: URL,
  headers, body, arguments, `env`, prompts, MCP servers, hooks, work sources, prechecks. The node that runs the target
  puts in the value that it has, at each run. A new value in `.env`, or a restart with another environment, needs no
  `apply`. Everywhere else (names, times, numbers, folders, conditions) the value is stored: put no secret there.
- <a id="secrets"></a>A value from a variable is a secret, and so are the password in a URL and values of keys
  such as `token`, `key`, `password`, `secret`, `authorization` or `cookie`. Screens, `--json`, logs,
  messages and run records show `***` instead, or `${NAME}` where a setting is shown. A default after `:-` is not a
  secret; names, times, numbers, folders and hosts are always shown. A secret that has fewer than six characters, or is
  a common word or a number, is hidden only in its own place.
- Paths are relative to the file that contains them.
- Keys that begin with `x-` are ignored; use them for your own data.
- A file can have at most 1 MiB and 50 levels of nesting.
- Keys in **bold** are required.

`herdbeat schema` prints the same information as JSON Schema, for [editors](../howto/editor-schema.md).
`herdbeat config show` prints the effective values and where each one is set.
"""

_PLACES = {
    "A price": "under `prices`, by model",
    "A fleet file": "the top level of `herdbeat.yaml`",
    "A fleet block": "`fleet`",
    "A server block": "`server`",
    "A proxy_auth block": "`proxy_auth` of `server`",
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
    "A workspace": "`workspace` of an agent or a schedule, if it is not just a word",
    "An isolation": "`isolation` of an agent or a schedule, if it is not just a word",
    "An MCP server": "the values of `mcp_servers`",
    "A plugin": "the entries of `plugins`, if they are not just paths",
    "A session": "`session` of a schedule, an agent or `defaults`, if it is not just `fresh` or `resume`",
    "A runtime": "the values of `runtimes`; [what a runtime does](runtimes.md)",
    "A docker block": "`docker` of an agent or `defaults`",
    "Resources": "`resources` of an agent, a command or `defaults`",
    "An executors block": "`executors` of the fleet file",
    "A Ray cluster": "`ray` of `executors`",
    "A Kubernetes cluster": "`kubernetes` of `executors`",
    "An instances block": "`instances` of a target or `defaults`",
    "A work source": "`work_source` of a schedule, an agent or `defaults`",
    "Labels": "`labels` of a work source",
    "An auth": "`auth` of a work source",
    "A notify channel": "the values of `notify`",
    "A selection of schedules": "`only` of a notify channel",
    "A dead_man block": "`dead_man` of the fleet file",
    "A planner block": "`planner` of the fleet file",
    "An agent": "the entries of `agents`, and an agent's own file",
    "A hooks block": "`hooks` of a target",
    "A hook": "the entries of `after_run` and `on_error`",
    "A schedule": "the values of `schedules`; for a target with one schedule, next to its name",
    "A tool policy": "`tool_policy` of a schedule or an agent",
    "An auth block": "`auth` of a webhook schedule",
    "An endpoint": "the entries of `endpoints`",
    "A command": "the entries of `commands`",
    "A callable": "the entries of `callables`",
    "A reference": "the entries of `agents`, instead of an agent",
    "A sub-fleet": "the entries of `fleets`",
    "An import": "the entries of `imports`",
}
"""Where each table may be written. A new table that is missing here fails the generator."""


def page() -> str:
    tables = {table.title: table for table in [*list_tables(), AGENT_REFERENCE]}
    return markdown.page("Configuration", _INTRO, *map(_section, tables.values()), _agentd())


def _section(table: Table) -> str:
    """Return the keys of one table. Those that a schedule has too are only named; the schedule explains them."""
    borrowed = [] if table is SCHEDULE else [key.name for key in table.keys if _is_borrowed(key)]
    borrowed = borrowed if len(borrowed) > 5 else []
    own = [key for key in table.keys if key.name not in borrowed and not key.unsupported_reason]
    return markdown.section(
        table.title,
        f"Where: {_PLACES[table.title]}.",
        markdown.table(_HEAD, [_cells(key) for key in own]),
        _borrowed_line(borrowed),
        _without_effect(table),
    )


def _is_borrowed(key: Field[object]) -> bool:
    other = SCHEDULE.by_name.get(key.name)
    return other is not None and (key.field_type.describe(), key.meaning) == (
        other.field_type.describe(),
        other.meaning,
    )


def _borrowed_line(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"And these keys of [a schedule](#a-schedule), with the same meaning: {markdown.codes(names)}."


def _cells(key: Field[object]) -> tuple[str, str, str, str]:
    name = markdown.code(key.name)
    also = f" Also written {markdown.codes(key.aliases)}." if key.aliases else ""
    return f"**{name}**" if key.required else name, _form(key), key.default_text, key.meaning + also


def _form(key: Field[object]) -> str:
    """Return the type of a value, with a link to the table of its own keys if it has one."""
    form = key.field_type.describe()
    inner = next(_nearest_tables(key.field_type), None)
    return f"[{form}](#{inner.title.lower().replace(' ', '-')})" if inner else form


def _nearest_tables(field_type: FieldType[object]) -> Iterator[Table]:
    if isinstance(field_type, Table):
        yield field_type
        return
    for inner in field_type.inner_types():
        yield from _nearest_tables(inner)


def _without_effect(table: Table) -> str:
    """Return the line about keys of other tools, and why they have no effect here."""
    listed = "; ".join(f"`{key.name}` ({key.unsupported_reason})" for key in table.keys if key.unsupported_reason)
    return f"Accepted without effect, with a warning: {listed}." if listed else ""


def _agentd() -> str:
    """Return the keys of agentd's own files. They keep their meaning; only their names are listed."""
    lines = [
        f"Agents (`.agentd/agents/*.yml`): {_served(AGENTD_AGENT)}.",
        _without_effect(AGENTD_AGENT),
        f"Workflows (`.agentd/workflows/*.yml`): {_served(AGENTD_WORKFLOW)}.",
        f"Types of `source`: {markdown.codes(SOURCE_TABLES)}.",
        f"Not supported (ignored with a warning): {markdown.codes(UNSUPPORTED_SOURCES)}.",
    ]
    intro = "[Use an agentd folder as it is](../howto/use-an-agentd-folder.md) shows how they are read."
    return markdown.section("Files of agentd", intro, *lines)


def _served(table: Table) -> str:
    return markdown.codes(key.name for key in table.keys if not key.unsupported_reason)
