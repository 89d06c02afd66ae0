"""docs/reference/prompts.md: the rules of templates, and every name they may say."""

from herdbeat.domain.trigger import TriggerKind
from herdbeat.prompts import AGENTD_VARIABLES, FALLBACK_PROMPT, OWN_VARIABLES, ValueTrust, Variable
from scripts import markdown

_RULES = f"""\
A prompt is a text with names in double braces: `{{{{fire_time}}}}`, or `{{{{ fire_time }}}}`, which is the same.
Braces around a placeholder are text: `{{{{{{title}}}}}}` is the title in braces.

- There is one pass. A value is put in and never looked at again: an issue whose title says `{{{{body}}}}` keeps it.
- `\\{{{{` is text: two braces.
- A name that the schedule can never have is an error when the file is read, with a guess at what was meant
  ([unknown_template_name](problems.md#unknown_template_name)). In files of herdctl and agentd it is a warning, and the
  braces stay as they are written.
- A known name without a value becomes empty text.
- A schedule without a prompt uses its agent's `default_prompt`, and without that "{FALLBACK_PROMPT}".
- A work item is added below the prompt as a block (title, ID, URL, description, metadata), unless the prompt names it.
- Text from outside (an issue, a call, a chat message) goes in as data. Short values become one line; longer ones
  stand on lines of their own between marks, so that the agent can tell them from its instructions.
"""

_TEXTS = {
    ValueTrust.TRUSTED: "herdbeat's own, as it is",
    ValueTrust.UNTRUSTED_LINE: "from outside, made one line",
    ValueTrust.UNTRUSTED_TEXT: "from outside, marked as data unless short",
}


def page() -> str:
    return markdown.page(
        "Prompts",
        _RULES,
        markdown.section("Names", _names(OWN_VARIABLES)),
        markdown.section(
            "Names of agentd",
            "Kept so that its workflows run unchanged. They may be used in any file.",
            _names(AGENTD_VARIABLES),
        ),
    )


def _names(names: tuple[Variable, ...]) -> str:
    rows = [(markdown.code(each.name), each.meaning, _where(each), _TEXTS[each.trust]) for each in names]
    return markdown.table(("name", "meaning", "on", "text"), rows)


def _where(name: Variable) -> str:
    kinds = "every trigger" if name.kinds == frozenset(TriggerKind) else ", ".join(sorted(name.kinds))
    return "with a work source" if name.needs_work else kinds
