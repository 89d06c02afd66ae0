"""The arguments of a call: checked against the tool's schema, and read as durations and times."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from herdbeat.durations import parse_duration
from herdbeat.errors import HerdbeatError, SchedulerError, truncate_for_message
from herdbeat.mcp.tool_specs import ToolSpec
from herdbeat.service.serialize import JsonObject
from herdbeat.timestamps import parse_timestamp

_TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "boolean": bool, "integer": int, "object": Mapping}


class ToolRefusal(Exception):
    """An error that a tool returns to an agent: a code, a sentence, what to do, and the accepted values."""

    def __init__(self, code: str, detail: str, *, hint: str = "", accepted: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.accepted = dict(accepted or {})

    @classmethod
    def from_error(cls, error: HerdbeatError) -> "ToolRefusal":
        return cls(str(error.code), error.message, hint=error.hint)

    def to_json(self) -> JsonObject:
        answer: JsonObject = {"code": self.code, "detail": self.detail}
        return (
            answer | ({"accepted": self.accepted} if self.accepted else {}) | ({"hint": self.hint} if self.hint else {})
        )


class Arguments:
    """The arguments of one call. Raises ToolRefusal for unknown names, missing ones and values of another type."""

    def __init__(self, tool: ToolSpec, given: Mapping[str, object]) -> None:
        # A model sends null, or an empty text, for what it leaves out.
        self._given = {name: value for name, value in given.items() if value is not None and value != ""}
        self._check(tool)

    def _check(self, tool: ToolSpec) -> None:
        names = ", ".join(tool.arguments) or "none"
        for name, value in self._given.items():
            if name not in tool.arguments:
                detail = f'{tool.name} has no argument "{truncate_for_message(name)}".'
                raise ToolRefusal("unknown_argument", detail, hint=f"Its arguments: {names}.")
            wanted = str(tool.arguments[name]["type"])
            is_flag_for_number = isinstance(value, bool) and wanted == "integer"
            if not isinstance(value, _TYPES[wanted]) or is_flag_for_number:
                raise ToolRefusal("bad_argument", f"{name} must be of the type {wanted}.", hint="Call it again.")
        missing = [name for name in tool.required if name not in self._given]
        if missing:
            raise ToolRefusal(
                "missing_argument", f"{tool.name} needs {' and '.join(missing)}.", hint=f"Arguments: {names}."
            )

    def text(self, name: str) -> str:
        return str(self._given.get(name, ""))

    def optional_text(self, name: str) -> str | None:
        return self.text(name) or None

    def flag(self, name: str) -> bool | None:
        value = self._given.get(name)
        return None if value is None else bool(value)

    def count(self, name: str, default: int, most: int) -> int:
        value = self._given.get(name, default)
        assert isinstance(value, int)
        return min(max(1, value), most)

    def number(self, name: str) -> int | None:
        value = self._given.get(name)
        return value if isinstance(value, int) else None

    def mapping(self, name: str) -> Mapping[str, object]:
        value = self._given.get(name)
        return {str(key): each for key, each in value.items()} if isinstance(value, Mapping) else {}

    def seconds(self, name: str) -> float | None:
        """Raises ToolRefusal for what is no duration."""
        text = self.text(name)
        return self._parse_duration(name, text).total_seconds() if text else None

    def moment(self, name: str) -> datetime | None:
        """Raises ToolRefusal for what is no time with an offset."""
        text = self.text(name)
        if not text:
            return None
        try:
            return parse_timestamp(text)
        except SchedulerError as error:
            raise ToolRefusal("bad_time", f"{name}: {error.message}", hint=error.hint) from error

    def since(self, name: str, now: datetime) -> datetime | None:
        """Return the moment that is given, or so long ago."""
        text = self.text(name)
        if not text:
            return None
        return now - self._parse_duration(name, text) if text[-1:] in "smhd" else self.moment(name)

    def _parse_duration(self, name: str, text: str) -> timedelta:
        try:
            return parse_duration(text)
        except SchedulerError as error:
            raise ToolRefusal("bad_duration", f"{name}: {error.message}", hint=error.hint) from error
