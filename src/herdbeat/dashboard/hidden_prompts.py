"""Prompts in forms. A known secret is hidden there, and an unchanged form still means the whole prompt."""

from collections.abc import Collection

from herdbeat.domain.references import list_variables
from herdbeat.errors import UsageError
from herdbeat.redaction import MASK, redact_known


def show_prompt(prompt: str) -> str:
    """Return a prompt as a form has it, without known secrets."""
    return redact_known(prompt)


def is_same_prompt(given: str, own: str) -> bool:
    """Return whether a form came back with the prompt that it had shown."""
    return given.strip() == show_prompt(own).strip()


def require_complete(given: str, own: str) -> None:
    """Raises UsageError if a changed prompt still has the stars of a value that the form did not show."""
    if MASK in given and MASK not in own and show_prompt(own) != own:
        hint = "Write something else in its place, or leave the prompt as it was."
        raise UsageError(f'"{MASK}" in the prompt stands for a hidden value, which is not inserted again.', hint=hint)


def require_plain(given: str, variables: Collection[str]) -> None:
    """Raises UsageError if a prompt for one run still has a reference of the schedule's own prompt."""
    name = next((each for each in list_variables(given) if each in variables), None)
    if name is not None:
        hint = "Write something else in its place, or leave the prompt as it was."
        raise UsageError(f'"${{{name}}}" is filled in only in the prompt of the schedule itself.', hint=hint)
