"""`herdbeat completion`: scripts for three shells, written from the table of commands."""

from collections.abc import Iterable, Iterator

from herdbeat.faces.cli.arguments import Given
from herdbeat.faces.cli.commands import COMMANDS, GROUPS
from herdbeat.faces.cli.options import VERSION, Command
from herdbeat.faces.cli.world import World

_BASH = """\
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

# Its own, and not bash's script through the bridge of zsh: only so each offer has its description beside it.
_ZSH = """\
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


def run(given: Given, world: World) -> int:
    if given.words[0] == "names":
        from herdbeat.faces.cli.names import run as run_names  # noqa: PLC0415 -- the scripts need no ledger

        return run_names(given, world)
    script = {"bash": bash, "zsh": zsh, "fish": fish}[given.words[0]]()
    world.terminal.out.write(script)
    return 0


def bash() -> str:
    rows = [('""', " ".join([*_first_words(), *VERSION.names]))]
    rows += [(f'"{group}"', " ".join(_second_words(group))) for group in GROUPS]
    # Not `"run"*` alone, which is also the beginning of `runs`.
    cases = [f'        {case}) offers="{words}" ;;' for case, words in rows]
    cases += [f'        "{path}"|"{path} "*) {_assignments(command)} ;;' for path, command in _paths()]
    return _BASH.format(cases="\n".join(cases))


def _assignments(command: Command) -> str:
    return f'offers="{" ".join(_offers(command))}"{_named(command)}'


def _named(command: Command) -> str:
    return "; named=yes" if any(argument.takes_name for argument in command.arguments) else ""


def zsh() -> str:
    firsts = [(word, _meaning(word)) for word in _first_words()]
    rows = [('""', _described([*firsts, *((name, VERSION.meaning) for name in VERSION.names)]), "")]
    for group in GROUPS:
        seconds = [(path.split()[1], each.summary) for path, each in _paths() if path.startswith(f"{group} ")]
        rows.append((f'"{group}"', _described(seconds), ""))
    rows += [(f'"{path}"|"{path} "*', _described(_told(each)), _named(each)) for path, each in _paths()]
    return _ZSH.format(cases="\n".join(f"        {case}) offers=({words}){named} ;;" for case, words, named in rows))


def _told(command: Command) -> Iterator[tuple[str, str]]:
    for argument in command.arguments:
        yield from ((choice, argument.name) for choice in argument.choices)
    for option in command.all_options:
        yield from ((name, option.meaning) for name in option.names)


def _described(offers: Iterable[tuple[str, str]]) -> str:
    """'--json:print JSON' '-n:how many'; a quote inside is written as shells want it."""
    return " ".join("'" + f"{word}:{meaning}".replace("'", "'\\''") + "'" for word, meaning in offers)


def fish() -> str:
    return "\n".join(["# herdbeat completion for fish", "complete -c herdbeat -f", *_fish_lines()]) + "\n"


def _fish_lines() -> Iterator[str]:
    for word in _first_words():
        yield f"complete -c herdbeat -n __fish_use_subcommand -a {word} -d {_quoted(_meaning(word))}"
    for path, command in _paths():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path.split())
        for group in GROUPS:
            if path.startswith(f"{group} "):
                second = path.split()[1]
                yield (
                    f"complete -c herdbeat -n '__fish_seen_subcommand_from {group}'"
                    f" -a {second} -d {_quoted(command.summary)}"
                )
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
            yield f"complete -c herdbeat -n '{seen}' {names}{takes} -d {_quoted(option.meaning)}"


def _paths() -> Iterator[tuple[str, Command]]:
    for command in COMMANDS:
        for path in (command.path, *command.aliases):
            yield " ".join(path), command


def _first_words() -> list[str]:
    return list(dict.fromkeys(path.split()[0] for path, _ in _paths()))


def _second_words(group: str) -> list[str]:
    return [path.split()[1] for path, _ in _paths() if path.startswith(f"{group} ")]


def _offers(command: Command) -> Iterator[str]:
    for argument in command.arguments:
        yield from argument.choices
    for option in command.all_options:
        yield from option.names


def _meaning(word: str) -> str:
    return next((command.summary for path, command in _paths() if path == word), GROUPS.get(word, ""))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
