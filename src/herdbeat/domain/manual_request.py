"""What somebody gives with a run by hand. It is stored with the beat, so that a restart and a retry have it too."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualRequest:
    """Another prompt for this one run, data in the place of a webhook call, and why somebody wanted the run.

    `input` is JSON text; an empty one is no input.
    """

    prompt: str = field(default="", repr=False)
    input: str = field(default="", repr=False)
    reason: str = ""

    @property
    def has_input(self) -> bool:
        return bool(self.input)

    def to_text(self) -> str | None:
        """Return the JSON of the ledger; None if nothing was given."""
        given: dict[str, object] = {}
        if self.prompt:
            given["prompt"] = self.prompt
        if self.input:
            given["payload"] = json.loads(self.input)
        if self.reason:
            given["reason"] = self.reason
        return json.dumps(given) if given else None

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Self:
        """Read what the ledger has. What is not there was not given."""
        return cls(
            prompt=str(data.get("prompt", "")),
            input=json.dumps(data["payload"]) if "payload" in data else "",
            reason=str(data.get("reason", "")),
        )
