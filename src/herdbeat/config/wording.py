"""What is said about a value that does not fit its key."""

from herdbeat.codes import Code
from herdbeat.config.report import Misfit
from herdbeat.errors import HerdbeatError
from herdbeat.located import Located


def as_text(node: Located, words: str) -> str:
    refuse_undefined(node)
    if isinstance(node.value, str):
        if "\0" in node.value:
            # No path, argument, variable or PostgreSQL text can hold one: better here than at the first run.
            raise Misfit(Code.INVALID_VALUE, f"{key_name(node)} holds a NUL character.", hint="Remove the \\0.")
        return node.value
    raise wrong_type(node, words)


def refuse_undefined(node: Located) -> None:
    if node.undefined:
        raise _undefined(node.undefined)


def _undefined(name: str) -> Misfit:
    return Misfit(
        Code.UNDEFINED_VARIABLE,
        f"The environment variable {name} is not set.",
        hint=f"Set it, in the environment or in .env, or give a default: ${{{name}:-default}}.",
    )


def wrong_type(node: Located, words: str) -> Misfit:
    """What to say about a value of another type. A missing variable is the better reason, where there is one."""
    if node.undefined:
        return _undefined(node.undefined)
    if node.value is None:
        hint = f"Write {words}, or remove the key."
        return Misfit(Code.WRONG_TYPE, f"{key_name(node)} has no value.", hint=hint)
    quotes = words == "a text" and not isinstance(node.value, list | dict)
    hint = f'Put it in quotes: "{node.written}".' if quotes else f"Write {words}."
    return Misfit(Code.WRONG_TYPE, f"{key_name(node)} must be {words}, not {shown(node)}.", hint=hint)


def without_value(error: HerdbeatError, node: Located, words: str) -> HerdbeatError:
    """The same complaint without the value, if a variable put it in: it may be a secret, and logs are read by many."""
    if not node.expanded:
        return error
    code = error.problem_code if isinstance(error, Misfit) else error.code
    message = f'{key_name(node)}: "{node.written}" does not stand for {words}.'
    return Misfit(code, message, hint=f"Set {node.expanded.split()[0]} to something that makes it {words}.")


def out_of_range(node: Located, bounds: str) -> Misfit:
    return Misfit(Code.INVALID_VALUE, f"{key_name(node)} cannot be {shown(node)}.", hint=f"Write {bounds}.")


def number_range(at_least: int, at_most: int) -> str:
    return f"{at_least}" if at_least == at_most else f"a number from {at_least} to {at_most}"


def shown(node: Located) -> str:
    """A value as it stands in a message: short, on one line, and never what a variable put in."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    text = " ".join((node.written or str(node.value)).split())
    short = text if len(text) <= 40 else text[:37] + "…"
    return f'"{short}"' if isinstance(node.value, str) else short


def key_name(node: Located) -> str:
    """The key as it was written, which may be another name of it; a whole document is "The file"."""
    return node.label.path.rpartition(".")[2] or "The file"
