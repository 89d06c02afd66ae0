"""Values as a fleet file has them: references instead of secrets, and only what is no default."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from herdbeat.config.imports.document import MigrationNote, NoteKind
from herdbeat.config.nodes import PUBLIC_KEYS, ConfigNode, PlainData
from herdbeat.config.provenance import to_config_value
from herdbeat.config.schema.policies import ADAPT, POLICIES, PRECHECK, TIMEZONE
from herdbeat.config.schema.table import Field, Table
from herdbeat.config.schema.targets import SPEC_KEYS
from herdbeat.domain.policies import Policies
from herdbeat.domain.references import escape_references, list_variables, unescape_references
from herdbeat.domain.target import AgentSpec, CommandSpec, Target
from herdbeat.domain.trigger import Trigger, TriggerKind
from herdbeat.errors import SourceLocation
from herdbeat.prompts import validate_prompt
from herdbeat.redaction import MASK, is_secret_value, redact, redact_arguments

_NON_VARIABLE_CHARS = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(slots=True)
class ValueWriter:
    """Writes the values of one target. A secret becomes a reference to a variable, with a note.

    `variables` are those that the stored texts, which are written now, refer to.
    """

    owner: str
    where: SourceLocation | None = None
    variables: Collection[str] = ()
    notes: list[MigrationNote] = field(default_factory=list)

    def write_node(self, node: ConfigNode, name: str = "") -> PlainData:
        """Return a value of a file as it is written there: `${NAME}` stays what it is."""
        if isinstance(node.value, dict):
            return {key: self.write_node(child, f"{name}.{key}" if name else key) for key, child in node.items()}
        if isinstance(node.value, list):
            written = [self.write_node(child, f"{name}[{index}]") for index, child in enumerate(node.elements())]
            return self._hide_arguments([child.to_data() for child in node.elements()], written, name)
        if isinstance(node.value, str) and (node.variable_names or node.undefined_variable):
            # A block keeps its references in `raw`, too, but not its line breaks as they are read.
            return node.raw if "${" in node.raw else node.value
        return self.write_data(node.value, name)

    def write_data(self, value: object, name: str = "") -> PlainData:
        """Return plain data as a file has it. What looks like a reference in it is only text."""
        if isinstance(value, Mapping):
            return {
                str(key): self.write_data(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            written = [self.write_data(item, f"{name}[{index}]") for index, item in enumerate(value)]
            return self._hide_arguments(value, written, name)
        plain = to_config_value(value)
        return self._write_text(plain, name) if isinstance(plain, str) else plain

    def _write_text(self, text: str, name: str) -> str:
        key = name.rpartition(".")[2].partition("[")[0]
        if not set(self.variables).isdisjoint(list_variables(text)):
            return text
        if self.variables:
            text = unescape_references(text)
        if key in PUBLIC_KEYS or text in ("", "none"):
            return escape_references(text)
        if is_secret_value(key, text) or (redact(text) != text and not re.search(r"\s", text)):
            before, equals, _ = text.partition("=")
            is_option = bool(equals) and text.startswith("-")
            return f"{before}={self._refer(name)}" if is_option else self._refer(name)
        hidden = redact(text)
        if hidden != text:
            message = f"{name} of {self.owner} contains a secret, which was replaced by {MASK}."
            self._note(NoteKind.NOT_CARRIED, message, "Write ${NAME} in its place.")
        return escape_references(hidden)

    def _hide_arguments(self, items: Sequence[object], written: list[PlainData], name: str) -> list[PlainData]:
        """Return a list as it is written. What follows `--token` or `--token=` in it is a secret."""
        for index, (item, masked) in enumerate(zip(items, redact_arguments(items, name), strict=True)):
            is_hidden = isinstance(masked, str) and masked.endswith(MASK) and masked != item
            if is_hidden and "${" not in str(written[index]):
                written[index] = masked.removesuffix(MASK) + self._refer(f"{name}[{index}]")
        return written

    def _refer(self, name: str) -> str:
        variable = _NON_VARIABLE_CHARS.sub("_", f"{self.owner}_{name}").strip("_").upper()
        variable = variable if variable[:1].isalpha() else f"V_{variable}"
        message = f"{name} of {self.owner} looks like a secret and was not written."
        hint = f"Put {variable}=… into a file .env beside the fleet file, or into the environment of herdbeat."
        self._note(NoteKind.CHANGED, message, hint)
        return f"${{{variable}}}"

    def _note(self, kind: NoteKind, message: str, hint: str) -> None:
        self.notes.append(MigrationNote(kind=kind, message=message, hint=hint, where=self.where))


def escape_unknown_names(text: str, kind: TriggerKind, *, has_work: bool) -> str:
    """Return a prompt of another tool for a file of ours, in which braces around an unknown name are an error."""
    offsets = {error.offset for error in validate_prompt(text, kind, has_work=has_work)}
    for offset in sorted(offsets, reverse=True):
        text = f"{text[:offset]}\\{text[offset:]}"
    return text


def policy_keys(policies: Policies, kinds: Collection[str], zone: str, writer: ValueWriter) -> dict[str, PlainData]:
    """Return the policies that are no defaults of these kinds of trigger and target, by key."""
    keys: dict[str, PlainData] = {} if policies.zone.key == zone else {TIMEZONE.name: policies.zone.key}
    for key in POLICIES:
        if key in (TIMEZONE, ADAPT):
            continue
        if isinstance(key.field_type, Table):
            block = _block_keys(key.field_type, getattr(policies, key.name), kinds, writer)
            keys |= {key.name: block} if block else {}
            continue
        writer.variables = policies.variables if key is PRECHECK else ()
        value = _get_path(policies, key.domain_path)
        if value not in (None, ()) and value != key.default_value(kinds):
            keys[key.name] = writer.write_data(value, key.name)
    if policies.adapt:
        keys[ADAPT.name] = writer.write_data(policies.adapt, ADAPT.name)
    return keys


def trigger_keys(trigger: Trigger) -> dict[str, PlainData]:
    """Return a stored trigger as a file has it. A webhook's `auth` is not among them."""
    options = trigger.options()
    for name, key in (("every", "every"), ("expression", "cron"), ("run_at", "at")):
        if name in options:
            anchor: dict[str, PlainData] = {"anchor": str(options["anchor"])} if "anchor" in options else {}
            return {key: options[name], **anchor}
    return {"type": trigger.kind.value}


def target_keys(target: Target, writer: ValueWriter) -> dict[str, PlainData]:
    """Return the keys of a target that no file defines."""
    spec = target.spec
    writer.variables = spec.variables
    keys: dict[str, PlainData] = {"description": target.description} if target.description else {}
    for key in SPEC_KEYS[target.kind]:
        if key.unsupported_reason or not hasattr(spec, key.domain_path):
            continue
        value = getattr(spec, key.domain_path)
        if value not in (None, (), {}, key.default_value()):
            keys[key.name] = writer.write_data(value, key.name)
    if isinstance(spec, AgentSpec | CommandSpec):
        if spec.working_directory != ".":
            keys["working_directory"] = escape_references(spec.working_directory)
        if spec.env or spec.env_values:
            keys["env"] = list(spec.env) if spec.env else writer.write_data(spec.env_values, "env")
    if target.max_concurrent != 1:
        keys["instances"] = {"max_concurrent": target.max_concurrent}
    return keys


def _block_keys(table: Table, value: object, kinds: Collection[str], writer: ValueWriter) -> dict[str, PlainData]:
    if value is None:
        return {}
    pairs = ((key, getattr(value, key.domain_path)) for key in table.keys)
    return {
        key.name: writer.write_data(inner, key.name)
        for key, inner in pairs
        if inner is not None and inner != _default(key, kinds)
    }


def _default(key: Field[object], kinds: Collection[str]) -> object:
    return key.default_value(kinds)


def _get_path(value: object, path: str) -> object:
    for name in path.split("."):
        value = getattr(value, name)
    return value
