"""What to say: templates, the names they may use, and the prompt of one run."""

from herdbeat.prompts.block import work_item_block
from herdbeat.prompts.checks import check
from herdbeat.prompts.names import AGENTD_NAMES, NAMES, OWN_NAMES, Known, Shape
from herdbeat.prompts.render import FALLBACK_PROMPT, build_schedule_prompt, fixed_prompt
from herdbeat.prompts.template import Name, Template

__all__ = [
    "AGENTD_NAMES",
    "FALLBACK_PROMPT",
    "NAMES",
    "OWN_NAMES",
    "Known",
    "Name",
    "Shape",
    "Template",
    "build_schedule_prompt",
    "check",
    "fixed_prompt",
    "work_item_block",
]
