"""Prompts: templates, the variables they may use, and the prompt of one run."""

from herdbeat.prompts.render import FALLBACK_PROMPT, build_schedule_prompt, render_static_prompt, work_item_block
from herdbeat.prompts.template import to_text
from herdbeat.prompts.variables import (
    AGENTD_VARIABLES,
    OWN_VARIABLES,
    VARIABLES,
    ValueTrust,
    Variable,
    build_event_values,
    validate_prompt,
)

__all__ = [
    "AGENTD_VARIABLES",
    "FALLBACK_PROMPT",
    "OWN_VARIABLES",
    "VARIABLES",
    "ValueTrust",
    "Variable",
    "build_event_values",
    "build_schedule_prompt",
    "render_static_prompt",
    "to_text",
    "validate_prompt",
    "work_item_block",
]
