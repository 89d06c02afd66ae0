"""Messages about values that do not fit their key."""

from collections.abc import Iterable
from difflib import get_close_matches

from herdbeat.config.diagnostics import ValidationError
from herdbeat.config.nodes import ConfigNode
from herdbeat.error_codes import Code
from herdbeat.errors import HerdbeatError


def find_closest_match(word: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word, for "did you mean". Case, - and _ do not count."""
    by_normalized = {_normalize(each): each for each in known}
    if _normalize(word) in by_normalized:
        return by_normalized[_normalize(word)]
    near = get_close_matches(_normalize(word)[:60], by_normalized, n=1, cutoff=0.7)
    return by_normalized[near[0]] if near else None


def _normalize(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def require_text(node: ConfigNode, description: str) -> str:
    require_defined(node)
    if isinstance(node.value, str):
        if "\0" in node.value:
            # No path, argument, variable or PostgreSQL text can hold one, so the first run would fail.
            message = f"{key_name(node)} holds a NUL character."
            raise ValidationError(Code.INVALID_VALUE, message, hint="Remove the \\0.")
        return node.value
    raise wrong_type_error(node, description)


def require_defined(node: ConfigNode) -> None:
    if node.undefined_variable:
        raise _undefined_variable_error(node.undefined_variable)


def _undefined_variable_error(name: str) -> ValidationError:
    message = f"The environment variable {name} is not set."
    hint = f"Set it, in the environment or in .env, or give a default: ${{{name}:-default}}."
    return ValidationError(Code.UNDEFINED_VARIABLE, message, hint=hint)


def wrong_type_error(node: ConfigNode, description: str) -> ValidationError:
    """Return the error for a value of another type; that of an undefined variable, if one is the reason."""
    if node.undefined_variable:
        return _undefined_variable_error(node.undefined_variable)
    if node.value is None:
        hint = f"Write {description}, or remove the key."
        return ValidationError(Code.WRONG_TYPE, f"{key_name(node)} has no value.", hint=hint)
    quotes = description == "a text" and not isinstance(node.value, list | dict)
    hint = f'Put it in quotes: "{node.raw}".' if quotes else f"Write {description}."
    message = f"{key_name(node)} must be {description}, not {describe_value(node)}."
    return ValidationError(Code.WRONG_TYPE, message, hint=hint)


def redact_value(error: HerdbeatError, node: ConfigNode, description: str) -> HerdbeatError:
    """Return the error without the value if a variable put it in: that may be a secret, and many people read logs."""
    if not node.variable_names:
        return error
    code = error.problem_code if isinstance(error, ValidationError) else error.code
    message = f'{key_name(node)}: "{node.raw}" does not stand for {description}.'
    return ValidationError(
        code, message, hint=f"Set {node.variable_names.split()[0]} to something that makes it {description}."
    )


def out_of_range_error(node: ConfigNode, bounds: str) -> ValidationError:
    message = f"{key_name(node)} cannot be {describe_value(node)}."
    return ValidationError(Code.INVALID_VALUE, message, hint=f"Write {bounds}.")


def describe_range(at_least: int, at_most: int) -> str:
    return f"{at_least}" if at_least == at_most else f"a number from {at_least} to {at_most}"


def describe_value(node: ConfigNode) -> str:
    """Return a value for a message: short, on one line, and never what a variable put in."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    text = " ".join((node.raw or str(node.value)).split())
    short = text if len(text) <= 40 else text[:37] + "…"
    return f'"{short}"' if isinstance(node.value, str) else short


def key_name(node: ConfigNode) -> str:
    """Return the key as it was written, perhaps an alias; "The file" for a whole document."""
    return node.report_location.path.rpartition(".")[2] or "The file"
