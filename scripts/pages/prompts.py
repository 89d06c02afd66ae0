"""docs/reference/prompts.md: the rules of templates, and every variable."""

from herdbeat.domain.trigger import TriggerKind
from herdbeat.prompts import AGENTD_VARIABLES, FALLBACK_PROMPT, OWN_VARIABLES, ValueTrust, Variable
from scripts import markdown

_RULES = f"""\
A prompt is a template with variables in double braces: `{{{{fire_time}}}}` or `{{{{ fire_time }}}}`.
Extra braces around a variable are literal: `{{{{{{title}}}}}}` is the title in braces.

- Substitution happens once. Inserted values are not expanded again: `{{{{body}}}}` in an issue title stays as it is.
- `\\{{{{` stands for two literal braces.
- An unknown variable is an error when the file is read, with a suggestion
  ([unknown_template_name](problems.md#unknown_template_name)). In files of herdctl and agentd it is a warning, and the
  text stays unchanged.
- A variable without a value becomes an empty string.
- A schedule without a prompt uses the `default_prompt` of its agent, or else "{FALLBACK_PROMPT}".
- A work item is added below the prompt as a block (title, ID, URL, description, metadata), unless the prompt
  uses its variables.
- Untrusted text (an issue, a call, a chat message) is inserted as data. Short values become one line; longer ones are
  put on separate lines between markers, which lets the agent tell them apart from its instructions.
"""

_TEXTS = {
    ValueTrust.TRUSTED: "trusted, unchanged",
    ValueTrust.UNTRUSTED_LINE: "untrusted, converted to one line",
    ValueTrust.UNTRUSTED_TEXT: "untrusted, marked as data unless short",
}


def page() -> str:
    return markdown.page(
        "Prompts",
        _RULES,
        markdown.section("Names", _names(OWN_VARIABLES)),
        markdown.section(
            "Names of agentd",
            "Supported for agentd workflows. They can be used in any file.",
            _names(AGENTD_VARIABLES),
        ),
    )


def _names(names: tuple[Variable, ...]) -> str:
    rows = [(markdown.code(each.name), each.meaning, _where(each), _TEXTS[each.trust]) for each in names]
    return markdown.table(("name", "meaning", "on", "text"), rows)


def _where(name: Variable) -> str:
    kinds = "every trigger" if name.kinds == frozenset(TriggerKind) else ", ".join(sorted(name.kinds))
    return "with a work source" if name.needs_work else kinds
