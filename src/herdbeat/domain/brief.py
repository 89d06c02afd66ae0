"""What a run needs to know beside its target: read when it starts, not when it is decided."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    prompt: str | None = None
    work_source: Mapping[str, object] | None = None
    resume_session: bool = False
    output_to_file: bool = False
