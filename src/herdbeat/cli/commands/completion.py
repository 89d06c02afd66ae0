"""`herdbeat completion`: scripts for three shells, written from the table of commands, and the names they offer."""

from collections.abc import Iterable, Iterator

from herdbeat.cli.context import Context
from herdbeat.cli.output.render import Output
from herdbeat.cli.parser import ParsedArgs
from herdbeat.cli.spec import CONFIG, VERSION, CliCommand
from herdbeat.cli.table import COMMAND_GROUPS, COMMANDS

_BASH_TEMPLATE = """\
# herdbeat completion for bash
_herdbeat() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" offers="" typed="" named="" each
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$each" in -*) ;; *) typed="$typed $each" ;; esac
    done
    case "${{typed# }}" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$offers" -- "$current"))
    case "$named$current" in
        yes-*) ;;
        yes*) while IFS=$'\t' read -r each _; do COMPREPLY+=("$each"); done \
            < <(command herdbeat completion names "$current" 2>/dev/null) ;;
    esac
}}
complete -o default -F _herdbeat herdbeat
"""

# zsh could run the script of bash, but then the words would have no descriptions beside them.
_ZSH_TEMPLATE = """\
#compdef herdbeat
# herdbeat completion for zsh
_herdbeat() {{
    local -a offers names
    local typed="" named="" each stands
    for each in "${{(@)words[2,CURRENT-1]}}"; do
        case "$each" in -*) ;; *) typed="$typed $each" ;; esac
    done
    case "${{typed# }}" in
{cases}
    esac
    case "$named$words[CURRENT]" in
        yes-*) ;;
        yes*) while IFS=$'\t' read -r each stands; do names+=("$each:$stands"); done \
            < <(command herdbeat completion names "$words[CURRENT]" 2>/dev/null) ;;
    esac
    _describe -t names 'target or schedule' names
    [[ -n "$names" && "$words[CURRENT]" != -* ]] || _describe -t offers 'herdbeat' offers
    [[ -n "$typed" ]] && _files
}}
if [[ "$funcstack[1]" == _herdbeat ]]; then _herdbeat "$@"; else compdef _herdbeat herdbeat; fi
"""


MAX_OFFERED_NAMES = 200
"""Names that are offered: nobody reads more, and one more letter narrows them down."""


def run_completion(args: ParsedArgs, context: Context) -> Output:
    if args.positionals[0] == "names":
        return Output(lines=_name_lines(args, context))
    script = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[args.positionals[0]]()
    return Output(lines=[script.removesuffix("\n")])


def _name_lines(args: ParsedArgs, context: Context) -> Iterator[str]:
    """Yield a name and its state a line, separated by a tab; nothing without a ledger, or if it cannot be read.

    The shells call it at every keystroke, so it answers at once or not at all.
    """
    from herdbeat.bootstrap.config import find_bare_ledger, find_cached_config  # noqa: PLC0415 -- the scripts need none
    from herdbeat.service.queries.name_completion import complete_names  # noqa: PLC0415

    place = (args.value(CONFIG), context.environ, context.folder)
    cached = find_cached_config(*place)
    ledger = find_bare_ledger(*place) if cached is None else cached.ledger
    if ledger is not None:
        names = complete_names(ledger, args.positional(1) or "", MAX_OFFERED_NAMES, context.clock.now())
        yield from (f"{name}\t{state}" for name, state in names)


def bash_script() -> str:
    rows = [('""', " ".join([*_first_words(), *VERSION.names]))]
    rows += [(f'"{group}"', " ".join(word for word, _ in _second_words(group))) for group in COMMAND_GROUPS]
    # Not `"run"*` alone, which is also the beginning of `runs`.
    cases = [f'        {case}) offers="{words}" ;;' for case, words in rows]
    cases += [f'        "{path}"|"{path} "*) {_bash_assignments(command)} ;;' for path, command in _command_paths()]
    return _BASH_TEMPLATE.format(cases="\n".join(cases))


def _bash_assignments(command: CliCommand) -> str:
    return f'offers="{" ".join(word for word, _ in _word_descriptions(command))}"{_name_lookup_assignment(command)}'


def _name_lookup_assignment(command: CliCommand) -> str:
    return "; named=yes" if any(argument.takes_name for argument in command.arguments) else ""


def zsh_script() -> str:
    firsts = [(word, _summarize_word(word)) for word in _first_words()]
    rows = [('""', _zsh_words([*firsts, *((name, VERSION.meaning) for name in VERSION.names)]), "")]
    rows += [(f'"{group}"', _zsh_words(_second_words(group)), "") for group in COMMAND_GROUPS]
    rows += [
        (f'"{path}"|"{path} "*', _zsh_words(_word_descriptions(each)), _name_lookup_assignment(each))
        for path, each in _command_paths()
    ]
    cases = [f"        {case}) offers=({words}){named} ;;" for case, words, named in rows]
    return _ZSH_TEMPLATE.format(cases="\n".join(cases))


def _word_descriptions(command: CliCommand) -> Iterator[tuple[str, str]]:
    for argument in command.arguments:
        yield from ((choice, argument.name) for choice in argument.choices)
    for option in command.all_options:
        yield from ((name, option.meaning) for name in option.names)


def _zsh_words(offers: Iterable[tuple[str, str]]) -> str:
    """Return `'--json:print JSON' '-n:how many'`, with quotes inside escaped."""
    return " ".join("'" + f"{word}:{meaning}".replace("'", "'\\''") + "'" for word, meaning in offers)


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
            if argument.choices:
                yield f"complete -c herdbeat -n '{seen}' -a '{' '.join(argument.choices)}'"
            elif argument.takes_name:
                yield f"complete -c herdbeat -n '{seen}' -a '(command herdbeat completion names (commandline -ct))'"
            elif argument.takes_file:
                yield f"complete -c herdbeat -n '{seen}' -F"
        for option in command.all_options:
            names = " ".join(f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names)
            takes = " -r" if option.value else ""
            yield f"complete -c herdbeat -n '{seen}' {names}{takes} -d {_quote_fish(option.meaning)}"


def _command_paths() -> Iterator[tuple[str, CliCommand]]:
    return ((name, command) for command in COMMANDS for name in command.names)


def _first_words() -> list[str]:
    return list(dict.fromkeys(path.split()[0] for path, _ in _command_paths()))


def _second_words(group: str) -> list[tuple[str, str]]:
    """Return the second words of a group, with the summaries of their commands."""
    return [(path.split()[1], each.summary) for path, each in _command_paths() if path.startswith(f"{group} ")]


def _summarize_word(word: str) -> str:
    return next((command.summary for path, command in _command_paths() if path == word), COMMAND_GROUPS.get(word, ""))


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
