"""What to say: templates, the names they may use, and the prompt of one run."""

from herdbeat.prompts.block import work_item_block
from herdbeat.prompts.checks import validate_prompt
from herdbeat.prompts.names import AGENTD_VARIABLES, OWN_VARIABLES, VARIABLES, ValueTrust, Variable
from herdbeat.prompts.render import FALLBACK_PROMPT, build_schedule_prompt, render_static_prompt
from herdbeat.prompts.template import Placeholder, Template

__all__ = [
    "AGENTD_VARIABLES",
    "FALLBACK_PROMPT",
    "OWN_VARIABLES",
    "VARIABLES",
    "Placeholder",
    "Template",
    "ValueTrust",
    "Variable",
    "build_schedule_prompt",
    "render_static_prompt",
    "validate_prompt",
    "work_item_block",
]
