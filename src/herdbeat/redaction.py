"""The one place that knows which texts are secret, and hides them: on screens, in JSON, logs, messages and run records.

A secret is recognized in two ways:

- by its position: the password of an address, the path of an incoming webhook, and what stands under a name such as
  `token` or `Authorization`;
- by its value: what `${NAME}` puts into a configuration. The loader registers these values, and a node those of a job
  before it runs. So an error text, or the output of a program that prints its own arguments, is recorded without them.
  The ledger has the names of these variables only: a process that reads it registers the values that it has itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

MASK = "***"

_MIN_VALUE_CHARS = 6
_MIN_NAMED_VALUE_CHARS = 4
"""A shorter value is hidden where it stands, and nowhere else: replacing every "5" would garble all other texts."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|authorization|cookie|credential|signature|apikey|(?<![a-z])(?:key|auth|pwd)(?![a-z])",
    re.IGNORECASE,
)
_VARIABLE_OR_FILE_NAME = re.compile(r"_(env|file)$", re.IGNORECASE)
_RATE_NAME = re.compile(r"_per_[a-z]+$", re.IGNORECASE)
_COUNT_NAME = re.compile(r"(?:^|[_.])tokens$", re.IGNORECASE)
_COUNT = re.compile(r"[0-9][0-9_.]*\s*[kKmM]?")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SWITCH_WORDS = frozenset({"none", "null", "true", "false"})
_COMMON_VALUE = re.compile(r"[A-Za-z]+|[0-9.:/-]+|localhost(:[0-9]+)?")
"""A word, a number, a date, an address: it says nothing by itself, and other texts use it too."""

_USER_INFO = re.compile(
    r"(?P<before>(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}:/{1,3}|//)(?P<user>[^\s\"'/:@?#]*):)(?![0-9]{1,5}(?:[/?#]|$))(?P<secret>[^\s\"'<>]{0,1000})(?=@)"
)
_SPACED_USER_INFO = re.compile(r"(?P<before>[a-z][a-z0-9+.-]{0,30}:/{1,3}[^\s/:@]*:)[^@]*\s[^@]*(?P<after>@[^@\s]+)")
"""An address with a space in its password: only where a text is nothing but the address."""

_BARE_USER_INFO = re.compile(r"(?<![\w.-])[\w.-]+:(?P<secret>[^\s\"'@/{}\[\],][^\s\"'@]{0,200})(?=@[\w\[])")
"""An address without its scheme, as in a store that is written wrongly: only in lines of files."""

_ASSIGNMENT = re.compile(r"(?<![\w.-])(?P<name>[\w.-]{1,60})=(?P<secret>[^\s\"'&]+)")
"""`password=hush` in a text of such pairs: only in lines of files."""

_OPTION = re.compile(r"(?<![\w.-])(?P<name>-{1,2}[A-Za-z][\w-]*)[\"']?[\s,]+[\"']?(?P<secret>(?!-)[^\s\"',\]]+)")
"""`--token hush` in a command that is one text, or a list in a line: only in lines of files."""

_SCRIPT_SECRETS = (
    re.compile(r"(?P<before>(?<![\w.-])(?P<name>-{0,2}[A-Za-z][\w.-]*)=)(?P<secret>\"[^\"]*\"|'[^']*'|[^\s\"'&;|()]+)"),
    re.compile(
        r"(?P<before>(?<![\w.-])(?P<name>-{1,2}[A-Za-z][\w-]*)\s+)(?P<secret>\"[^\"]*\"|'[^']*'|(?!-)[^\s\"'&;|()]+)"
    ),
    re.compile(r"(?P<before>(?<![\w.-])(?P<name>[A-Za-z][\w-]*):\s+)(?P<secret>[^\s\"';|][^\"';|\n]*)"),
)
"""`TOKEN=hush`, `--token hush` and `X-Token: hush` in an argument of several words: a script, a header of curl."""

_PARAMETER = re.compile(r"(?P<before>[?&](?P<name>[^\s\"'=&#?]+)=)(?P<secret>[^\s\"'&#]+)")
_NAMED_VALUE = re.compile(
    r"(?P<before>(?<![\w.-])(?P<name>[\w.-]+)[\"']?\s*[:=]\s*)(?P<secret>\"[^\"]*\"?|'[^']*'?|(?:\$\{[^}\s]*\}|[^\s\"',{}\[\]|>])(?:\$\{[^}\s]*\}|[^,}\]])*)"
)
_VARIABLE_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_ONLY_REFERENCES = re.compile(r"(?:[A-Za-z]+ +)?(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}[ :._/-]*)+")
"""`${TOKEN}`, `Bearer ${TOKEN}`, `${USER}:${PASSWORD}`: it names the secret, and has nothing of it."""

_SECRET_PATH = re.compile(
    r"(?P<before>//(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
    r"|(?:[a-z]+\.)?discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/"
    r"|[\w.-]+\.webhook\.office\.com/|api\.telegram\.org/bot|hc-ping\.com/))(?!\$\{)(?P<secret>[^\s\"'<>?#,{}\[\]]+)",
    re.IGNORECASE,
)
"""The address of an incoming webhook is all that somebody needs to write there."""

_OWN_TOKEN = re.compile(r"hbt_(?:run_[0-9]+_)?[0-9a-f]{40}")
"""Our own tokens. Those of runs are too many to be registered one by one."""

_MAX_CACHED_TEXTS = 1_024

_registered: set[str] = set()
_known_values: re.Pattern[str] | None = None


@lru_cache(_MAX_CACHED_TEXTS)
def is_secret_name(name: str) -> bool:
    """Return whether what stands under a name is secret: `api_key`, `X-Auth-Token`, `dbPassword`.

    `token_env` is the name of a variable, `key_file` that of a file, and `tokens_per_day` a limit: none is a secret.
    """
    if _VARIABLE_OR_FILE_NAME.search(name) or _RATE_NAME.search(name):
        return False
    return _SECRET_NAME.search(_CAMEL_CASE.sub("_", name)) is not None


def is_secret_value(name: str, value: str) -> bool:
    """Return whether this value is secret under this name. Numbers under `tokens` and `max_tokens` are not.

    Nor are words that switch something (`auth: none` hid every "none" on every screen) and references to variables.
    """
    if not is_secret_name(name) or value.strip().lower() in _SWITCH_WORDS or _ONLY_REFERENCES.fullmatch(value):
        return False
    return _COUNT_NAME.search(_CAMEL_CASE.sub("_", name)) is None or _COUNT.fullmatch(value.strip()) is None


def is_distinctive(value: str, name: str = "") -> bool:
    """Return whether a value is hidden wherever it appears; others only where they stand."""
    if value.strip().lower() in _SWITCH_WORDS:
        return False
    if is_secret_name(name):
        return len(value) >= _MIN_NAMED_VALUE_CHARS
    return len(value) >= _MIN_VALUE_CHARS and _COMMON_VALUE.fullmatch(value) is None


def register_secrets(values: Iterable[str]) -> None:
    """Hide these values in everything that this process prints, logs or records from now on."""
    global _known_values  # noqa: PLW0603 -- one process has one set of secrets
    new = {form for value in values if value not in _registered for form in _iter_forms(value)} - _registered
    if new:
        _registered.update(new)
        _known_values = re.compile("|".join(map(re.escape, sorted(_registered, key=len, reverse=True))))


def register_variables(names: Iterable[str], environ: Mapping[str, str]) -> None:
    """Do the same for the values of these variables, unless other texts have them by accident."""
    found = ((name, environ.get(name)) for name in names)
    register_secrets(value for name, value in found if value and is_distinctive(value, name))


def _iter_forms(value: str) -> Iterator[str]:
    """Yield a value as texts may contain it: as it is, line by line, in JSON, in an address, as a host."""
    import json  # noqa: PLC0415 -- most commands register nothing
    from urllib.parse import quote, quote_plus  # noqa: PLC0415

    lines = [line.strip() for line in value.splitlines()]
    for text in {value, value.strip(), *(line for line in lines if len(line) > _MIN_VALUE_CHARS)} - {""}:
        yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        yield from (quote(text), quote(text, safe=""), quote_plus(text), text.lower())


def redact_known(text: str) -> str:
    """Return a text without the registered values. For what others wrote: nothing else in it is changed."""
    if "hbt_" in text:
        text = _OWN_TOKEN.sub(MASK, text)
    return text if _known_values is None else _known_values.sub(MASK, text)


def redact(text: str) -> str:
    """Return a text without the registered values and without the secrets of the addresses in it."""
    text = redact_known(text)
    if "//" in text or ":/" in text:
        text = _USER_INFO.sub(_mask_user_info, text)
        text = _SECRET_PATH.sub(rf"\g<before>{MASK}", text)
    if "=" in text:
        text = _PARAMETER.sub(_mask_by_name, text)
    return text


def _mask_by_name(match: re.Match[str]) -> str:
    is_hidden = is_secret_name(match["name"]) and not _VARIABLE_REFERENCE.fullmatch(match["secret"])
    return f"{match['before']}{MASK}" if is_hidden else match[0]


def _mask_user_info(match: re.Match[str]) -> str:
    """Hide a password, but not the name of the variable that has it."""
    return match[0] if _VARIABLE_REFERENCE.fullmatch(match["secret"]) else f"{match['before']}{MASK}"


def redact_data(value: object, name: str = "") -> object:
    """Return plain data with every secret in it hidden, also those under a telling name."""
    if isinstance(value, Mapping):
        return {key: redact_data(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return redact_arguments(value, name)
    if isinstance(value, str):
        if spaced := _SPACED_USER_INFO.fullmatch(value):
            return f"{spaced['before']}{MASK}{spaced['after']}"
        return MASK if value and is_secret_value(name, value) else redact(value)
    return value


def redact_known_data(value: object) -> object:
    """Return plain data without the registered values."""
    if isinstance(value, Mapping):
        return {key: redact_known_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_known_data(item) for item in value]
    return redact_known(value) if isinstance(value, str) else value


def redact_arguments(values: Sequence[object], name: str = "") -> list[Any]:
    """Return the arguments of a program, or any list: what follows `--token` or `--token=` is hidden.

    An argument of several words, such as a script of `sh -c` or a header of curl, is searched for them.
    """
    redacted: list[Any] = []
    for value, option in zip(values, ("", *values), strict=False):
        is_named = isinstance(option, str) and option.startswith("-") and "=" not in option and is_secret_name(option)
        if isinstance(value, str) and is_named and not value.startswith("-"):
            redacted.append(value if _ONLY_REFERENCES.fullmatch(value) else MASK)
        elif isinstance(value, str) and value.startswith("-") and is_secret_name(value.partition("=")[0]):
            before, equals, secret = value.partition("=")
            is_shown = not secret or _ONLY_REFERENCES.fullmatch(secret)
            redacted.append(value if is_shown else f"{before}{equals}{MASK}")
        else:
            shown = redact_data(value, name)
            redacted.append(_redact_words(shown) if isinstance(shown, str) and " " in shown else shown)
    return redacted


def _redact_words(text: str) -> str:
    for pattern in _SCRIPT_SECRETS:
        text = pattern.sub(lambda match: f"{match['before']}{MASK}" if _is_script_secret(match) else match[0], text)
    return text


def _is_script_secret(match: re.Match[str]) -> bool:
    """Return whether it is a secret: `$TOKEN` and `Bearer $TOKEN` are its name."""
    secret = match["secret"].strip("\"' ")
    return is_secret_value(match["name"].lstrip("-"), secret) and not secret.rpartition(" ")[2].startswith("$")


def find_secrets(value: object, name: str = "") -> set[str]:
    """Return the secrets that plain data has in telling positions. `Bearer abc` may come back as `abc`: it is both."""
    if isinstance(value, Mapping):
        return {secret for key, item in value.items() for secret in find_secrets(item, str(key))}
    if isinstance(value, list | tuple):
        pairs = zip(value, redact_arguments(value, name), strict=True)
        hidden_items = [item for item, hidden in pairs if _is_hidden_argument(item, hidden)]
        named = {str(item).partition("=")[2] or str(item) for item in hidden_items}
        inner = {secret for item in value for secret in find_secrets(item, name)}
        inner |= {secret for item in value if isinstance(item, str) for secret in _find_worded_secrets(item)}
        return {each for each in named if is_distinctive(each, "secret")} | inner
    return set(_find_text_secrets(value, name)) if isinstance(value, str) else set()


@lru_cache(_MAX_CACHED_TEXTS)
def _find_text_secrets(value: str, name: str) -> frozenset[str]:
    """The same for one text. Remembered: an endpoint asks for those of its address at every run."""
    if (inner_data := _parse_json(value)) is not None:
        return frozenset(find_secrets(inner_data, name))
    found: set[str] = set()
    if "@" in value:
        found |= {secret for match in _USER_INFO.finditer(value) for secret in _credential_forms(match)}
    if "=" in value:
        found |= {match["secret"] for match in _PARAMETER.finditer(value) if is_secret_name(match["name"])}
    if "//" in value:
        found |= {match["secret"] for match in _SECRET_PATH.finditer(value)}
    if is_secret_value(name, value):
        found |= {value, value.rpartition(" ")[2]}
    return frozenset(each for each in found if is_distinctive(each, "secret") and not _ONLY_REFERENCES.fullmatch(each))


@lru_cache(_MAX_CACHED_TEXTS)
def _find_worded_secrets(text: str) -> frozenset[str]:
    """Return the secrets of an argument of several words. Common words are left out: these positions are a guess."""
    matches = [match for pattern in _SCRIPT_SECRETS for match in pattern.finditer(text)] if " " in text else []
    found = {match["secret"].strip("\"' ") for match in matches if _is_script_secret(match)}
    found |= {each.rpartition(" ")[2] for each in found}
    return frozenset(each for each in found if is_distinctive(each) and not _ONLY_REFERENCES.fullmatch(each))


def _parse_json(text: str) -> object:
    """Return the data of a text that is a JSON object or list, as the body of a request often is; else None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    import json  # noqa: PLC0415 -- most commands register nothing

    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed


def _credential_forms(user_info: re.Match[str]) -> tuple[str, str]:
    """Return the password of an address, and the credentials as HTTP sends them: endpoints quote their requests."""
    from base64 import b64encode  # noqa: PLC0415 -- most commands register nothing
    from urllib.parse import unquote  # noqa: PLC0415

    credentials = f"{unquote(user_info['user'])}:{unquote(user_info['secret'])}"
    return user_info["secret"], b64encode(credentials.encode()).decode()


def _is_hidden_argument(item: object, hidden: object) -> bool:
    return isinstance(item, str) and hidden in (MASK, f"{item.partition('=')[0]}={MASK}")


def find_source_secrets(line: str) -> list[tuple[int, int]]:
    """Return where the secrets in a line of a configuration file are, from the left: start and end of each."""
    spans = [
        match.span("secret")
        for pattern in (_USER_INFO, _BARE_USER_INFO, _SECRET_PATH)
        for match in pattern.finditer(line)
    ]
    spans += [match.span("secret") for match in _PARAMETER.finditer(line) if is_secret_name(match["name"])]
    for pattern in (_NAMED_VALUE, _ASSIGNMENT, _OPTION):
        named = ((each, each["name"].lstrip("-").replace("-", "_")) for each in pattern.finditer(line))
        spans += [each.span("secret") for each, name in named if is_secret_value(name, each["secret"].strip("\"' "))]
    if _known_values is not None:
        spans += [match.span() for match in _known_values.finditer(line)]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if _VARIABLE_REFERENCE.fullmatch(line[start:end].strip("\"' ")):
            continue  # the name of a variable helps to find the mistake, and is no secret
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def redact_source(line: str) -> str:
    """Return a line of a configuration file, or a value as it is written there, without its secrets."""
    for start, end in reversed(find_source_secrets(line)):
        line = f"{line[:start]}{MASK}{line[end:]}"
    return line


def redact_store_url(url: str) -> str | None:
    """Return a store's URL without its password; None if it is not certain where the password ends.

    In `postgresql://herd:s3c/ret@host/fleet` a parser takes `herd` for the host, and the rest of the password once
    appeared in every message.
    """
    from urllib.parse import parse_qs  # noqa: PLC0415 -- a ledger in a file needs none of this

    head, _, query = url.partition("?")
    authority, slash, name = head.partition("://")[2].partition("/")
    credentials, _, hosts = authority.rpartition("@")
    parameters = parse_qs(query)
    ports = parameters.get("port", [""])[0].split(",")
    if "@" in name or not all(_is_host(each) for each in hosts.split(",")) or not all(map(_is_port, ports)):
        return None
    user = credentials.partition(":")[0] or parameters.get("user", [""])[0]
    where = hosts or parameters.get("host", ["localhost"])[0]
    return f"postgresql://{f'{user}@' if user else ''}{where}{slash}{name}"


def _is_host(text: str) -> bool:
    """Accepts host, host:5432 or [::1]:5432."""
    return not any(map(str.isspace, text)) and _is_port(text.rpartition("]")[2].partition(":")[2])


def _is_port(port: str) -> bool:
    """Accepts 5432, or an empty text, which means the default."""
    return not port or (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65_536)
