"""`herdbeat completion`: scripts for three shells, written from the table of commands, and the names they offer.

A script knows commands, options and their choices. It asks `herdbeat completion names` and `completion runs` for what
is in the ledger, `completion zones` for time zones, and leaves paths to the shell.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.spec import CONFIG, TOP_LEVEL_FLAGS, Argument, CliCommand, Option
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS
from herdbeat.errors import HerdbeatError

# Options are offered where nothing else is, or once a dash is typed: among them, a name would be hard to find.
_BASH_TEMPLATE = """\
# herdbeat completion for bash
_herdbeat() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="" typed="" options="" values="" lookups="" config="" each
    local IFS=$' \\t\\n'
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [ "$each" = "=" ] && continue
        case "$previous" in
            -c|--config) config="$each" previous=""; continue ;;
            {value_options}) previous=""; continue ;;
        esac
        case "$each" in -*) ;; *) typed="$typed $each" ;; esac
        previous="$each"
    done
    [ "$current" = "=" ] && current=""
    COMPREPLY=()
    case "$previous" in
{option_cases}
        {free_options}) return ;;
        *)
            case "${{typed# }}" in
{command_cases}
            esac ;;
    esac
    case "$current" in -*) values="$options" lookups="" ;; esac
    [ -n "$values$lookups" ] || values="$options"
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    for each in $lookups; do
        case "$each" in
            files)
                compopt -o filenames 2>/dev/null
                while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -f -- "$current") ;;
            *)
                while IFS=$'\\t' read -r each _; do COMPREPLY+=("$each"); done \
                    < <(command herdbeat completion "$each" "$current" ${{config:+-c "$config"}} 2>/dev/null) ;;
        esac
    done
}}
complete -F _herdbeat herdbeat
"""

# zsh could run the script of bash, but then the words would have no descriptions beside them.
_ZSH_TEMPLATE = """\
#compdef herdbeat
# herdbeat completion for zsh
_herdbeat() {{
    local -a options values found
    local typed="" previous="" lookups="" config="" each text
    for each in "${{(@)words[2,CURRENT-1]}}"; do
        case "$previous" in
            -c|--config) config="$each" previous=""; continue ;;
            {value_options}) previous=""; continue ;;
        esac
        case "$each" in -*) ;; *) typed="$typed $each" ;; esac
        previous="$each"
    done
    case "$previous" in
{option_cases}
        {free_options}) return ;;
        *)
            case "${{typed# }}" in
{command_cases}
            esac ;;
    esac
    case "$words[CURRENT]" in -*) values=() lookups="" ;; esac
    [[ -n "$values$lookups" ]] || _describe -t options 'option' options
    [[ -z "$values" ]] || _describe -t values 'value' values
    for each in ${{=lookups}}; do
        if [[ "$each" == files ]]; then _files; continue; fi
        found=()
        while IFS=$'\\t' read -r each text; do found+=("${{each//:/\\\\:}}:$text"); done \
            < <(command herdbeat completion "$each" "$words[CURRENT]" ${{config:+-c "$config"}} 2>/dev/null)
        _describe -t names 'target, schedule or run' found
    done
}}
if [[ "$funcstack[1]" == _herdbeat ]]; then _herdbeat "$@"; else compdef _herdbeat herdbeat; fi
"""


Offers = list[tuple[str, str]]
"""Words and their descriptions."""

MAX_OFFERED_NAMES = 200
MAX_OFFERED_RUNS = 50
"""Nobody reads more, and another letter narrows them down."""


def run_completion(args: ParsedArgs, context: Context) -> Output:
    match args.positionals[0]:
        case "names":
            return Output(lines=_name_lines(args, context))
        case "runs":
            return Output(lines=_run_lines(args, context))
        case "zones":
            return Output(lines=_zone_lines(args))
        case shell:
            script = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[shell]()
            return Output(lines=[script.removesuffix("\n")])


def _name_lines(args: ParsedArgs, context: Context) -> Iterator[str]:
    """Yield a name and its state a line, separated by a tab; nothing if neither the ledger nor a file can be read.

    The shells call it at every keystroke: the ledger that was used last is enough, also if a file has changed since.
    Only a fleet without such a ledger, which is new or on PostgreSQL, costs reading its files.
    """
    from herdbeat.bootstrap.config import find_bare_ledger, find_cached_config  # noqa: PLC0415 -- the scripts need none
    from herdbeat.service.queries.name_completion import complete_names  # noqa: PLC0415

    place, prefix = (args.value(CONFIG), context.environ, context.folder), args.positional(1) or ""
    cached = find_cached_config(*place, is_current=False)
    ledger = find_bare_ledger(*place) if cached is None else cached.ledger
    if ledger is not None:
        names = complete_names(ledger, prefix, MAX_OFFERED_NAMES, context.clock.now())
        yield from (f"{name}\t{state}" for name, state in names)
    else:
        yield from _name_lines_of_files(args, context, prefix)


def _name_lines_of_files(args: ParsedArgs, context: Context, prefix: str) -> Iterator[str]:
    from herdbeat.cli.fleet_handle import open_fleet_handle  # noqa: PLC0415 -- the scripts need none
    from herdbeat.domain.ids import display_name  # noqa: PLC0415

    try:
        schedules = open_fleet_handle(args, context).fleet.schedules
    except HerdbeatError:  # a shell shows no errors while one types
        return
    names = (display_name(each.target, each.name) for each in schedules)
    offered = (name for name in names if name.startswith(prefix))
    yield from (f"{name}\t" for name in islice(offered, MAX_OFFERED_NAMES))


def _run_lines(args: ParsedArgs, context: Context) -> Iterator[str]:
    """Yield the id of a recent run and what it was a line, separated by a tab; nothing if there is no ledger."""
    from herdbeat.cli.fleet_handle import open_fleet_handle  # noqa: PLC0415 -- the scripts need none
    from herdbeat.cli.output.symbols import RUN_STATUS_SYMBOLS  # noqa: PLC0415
    from herdbeat.domain.ids import format_short_id  # noqa: PLC0415
    from herdbeat.service.queries.selectors import find_runs  # noqa: PLC0415

    prefix = args.positional(1) or ""
    try:
        reader = open_fleet_handle(args, context).reader
        runs = [] if reader is None else find_runs(reader, None, None, since=None, before=None, limit=MAX_OFFERED_RUNS)
    except HerdbeatError:  # a shell shows no errors while one types
        return
    for run in runs:
        if format_short_id(run.id).startswith(prefix):
            yield f"{format_short_id(run.id)}\t{run.schedule}, {RUN_STATUS_SYMBOLS[run.status][1]}"


def _zone_lines(args: ParsedArgs) -> Iterator[str]:
    from zoneinfo import available_timezones  # noqa: PLC0415 -- the scripts need none

    return (zone for zone in sorted(available_timezones()) if zone.startswith(args.positional(1) or ""))


def bash_script() -> str:
    return _BASH_TEMPLATE.format(
        value_options=_pattern(_value_options()),
        free_options=_pattern(_free_options()),
        option_cases="\n".join(
            f'        {_pattern([option])}) values="{" ".join(option.choices)}" lookups="{_lookups(option)}" ;;'
            for option in _completed_options()
        ),
        command_cases="\n".join(
            f'                {pattern}) values="{_words(values)}" options="{_words(options)}" lookups="{lookups}" ;;'
            for pattern, values, options, lookups in _positions()
        ),
    )


def zsh_script() -> str:
    return _ZSH_TEMPLATE.format(
        value_options=_pattern(_value_options()),
        free_options=_pattern(_free_options()),
        option_cases="\n".join(
            f'        {_pattern([option])}) values=({" ".join(option.choices)}) lookups="{_lookups(option)}" ;;'
            for option in _completed_options()
        ),
        command_cases="\n".join(
            f"                {pattern}) values=({_zsh_words(values)}) options=({_zsh_words(options)})"
            f' lookups="{lookups}" ;;'
            for pattern, values, options, lookups in _positions()
        ),
    )


def _positions() -> Iterator[tuple[str, Offers, Offers, str]]:
    """Yield the words typed so far as a pattern, and what can follow them: values, options, lookups."""
    firsts = [(word, _summarize_word(word)) for word in _first_words()]
    yield '""', firsts, _option_offers(TOP_LEVEL_FLAGS), ""
    for group in COMMAND_GROUPS:
        yield f'"{group}"', _second_words(group), [], ""
    for path, command in _command_paths():
        options = _option_offers(command.all_options)
        # Not `"run"*` alone, which is also the beginning of `runs`.
        for index, pattern in enumerate((f'"{path}"', f'"{path} "*')):
            argument = _argument_at(command, index)
            choices = [] if argument is None else [(choice, "") for choice in argument.choices]
            yield pattern, choices, options, "" if argument is None else _lookups(argument)


def _argument_at(command: CliCommand, index: int) -> Argument | None:
    """Return the argument that the next word belongs to. `config show` takes either of its two first."""
    arguments = command.arguments
    if index == 0 and command.name == "config show":
        return Argument("PATH|SELECTOR", "", takes_file=True, takes_name=True)
    if index < len(arguments):
        return arguments[index]
    return arguments[-1] if arguments and arguments[-1].many else None


def _lookups(subject: Argument | Option) -> str:
    """Return what a shell looks up when it is needed: names, runs, zones, files."""
    if isinstance(subject, Option):
        return "files" if subject.takes_file else "zones" if subject.takes_zone else ""
    kinds = {"names": subject.takes_name, "runs": subject.takes_run, "files": subject.takes_file}
    return " ".join(kind for kind, is_taken in kinds.items() if is_taken)


def _value_options() -> list[Option]:
    """Return the options that take a value, each once: their names, values and choices are the same everywhere."""
    return list(dict.fromkeys(option for command in COMMANDS for option in command.all_options if option.value))


def _completed_options() -> list[Option]:
    return [option for option in _value_options() if option.choices or _lookups(option)]


def _free_options() -> list[Option]:
    return [option for option in _value_options() if not option.choices and not _lookups(option)]


def _pattern(options: Iterable[Option]) -> str:
    """Return `-c|--config|--tz`, for the case statement of a shell."""
    return "|".join(name for option in options for name in option.names)


def _option_offers(options: Iterable[Option]) -> Offers:
    return [(name, option.meaning) for option in options for name in option.names]


def _words(offers: Iterable[tuple[str, str]]) -> str:
    return " ".join(word for word, _ in offers)


def _zsh_words(offers: Iterable[tuple[str, str]]) -> str:
    """Return `'--json:Print JSON' '-n:Show N rows'`, with quotes inside escaped."""
    return " ".join("'" + f"{word}:{meaning}".rstrip(":").replace("'", "'\\''") + "'" for word, meaning in offers)


def fish_script() -> str:
    return "\n".join(["# herdbeat completion for fish", "complete -c herdbeat -f", *_fish_lines()]) + "\n"


def _fish_lines() -> Iterator[str]:
    for word in _first_words():
        yield f"complete -c herdbeat -n __fish_use_subcommand -a {word} -d {_quote_fish(_summarize_word(word))}"
    for path, command in _command_paths():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split())
        group, _, second = path.partition(" ")
        if second:
            offer = f"-a {second} -d {_quote_fish(command.summary)}"
            yield f"complete -c herdbeat -n '__fish_seen_subcommand_from {group}' {offer}"
        for argument in command.arguments:
            yield from (f"complete -c herdbeat -n '{seen}' {offer}" for offer in _fish_argument(argument))
        for option in command.all_options:
            names = " ".join(f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names)
            yield f"complete -c herdbeat -n '{seen}' {names}{_fish_value(option)} -d {_quote_fish(option.meaning)}"


def _fish_argument(argument: Argument) -> Iterator[str]:
    if argument.choices:
        yield f"-a '{' '.join(argument.choices)}'"
    for lookup in _lookups(argument).split():
        yield "-F" if lookup == "files" else f"-a '(command herdbeat completion {lookup} (commandline -ct))'"


def _fish_value(option: Option) -> str:
    """Return how fish completes the value: with its choices, with paths, with zones, or not at all (`-x`)."""
    if not option.value:
        return ""
    if option.takes_file:
        return " -r -F"
    if option.takes_zone:
        return " -x -a '(command herdbeat completion zones (commandline -ct))'"
    return f" -x -a '{' '.join(option.choices)}'" if option.choices else " -x"


def _command_paths() -> Iterator[tuple[str, CliCommand]]:
    return ((name, command) for command in COMMANDS for name in command.names)


def _first_words() -> list[str]:
    return list(dict.fromkeys(path.split()[0] for path, _ in _command_paths()))


def _second_words(group: str) -> Offers:
    """Return the second words of a group, with the summaries of their commands."""
    return [(path.split()[1], each.summary) for path, each in _command_paths() if path.startswith(f"{group} ")]


def _summarize_word(word: str) -> str:
    return next((command.summary for path, command in _command_paths() if path == word), COMMAND_GROUPS.get(word, ""))


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
