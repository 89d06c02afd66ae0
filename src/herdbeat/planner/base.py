"""The contract of models, and the messages of a session in the words of no provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class MessageRole(StrEnum):
    SYSTEM = "system"
    USER = "user"
    MODEL = "model"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A tool that a model wants to call. `problem` says what is wrong with arguments that cannot be read."""

    id: str
    name: str
    arguments: Mapping[str, object]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """One message. `calls` are those of the model; `call_id` is the call that a tool's message answers."""

    role: MessageRole
    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model answers: text, calls, or both; and the tokens that it counts."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerTool:
    """A tool as it is described to a model. `schema` is JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, object]


class PlannerModel(Protocol):
    """A model that can be asked. One call is one request; the caller limits how long it may take."""

    name: str

    async def ask(self, messages: Sequence[ModelMessage], tools: Sequence[PlannerTool]) -> ModelReply:
        """Return the answer. Raises ModelRefusal if there is none, or none that can be read."""
        ...


class ModelRefusal(Exception):
    """The model could not be asked, or did not answer in its own protocol. `retry_after_s` is what it asked for."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
