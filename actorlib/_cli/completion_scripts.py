"""Writes the scripts with which shells complete words of the command line.

Words are in the script. Those for the arguments of a command are offered at every
place. Names of actors and processes of runtimes are asked for when they are needed, by
``actorlib completion actors`` and ``pids``. Pure: a script is made of what the parser
says of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actorlib._cli.recorded_parser import FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actorlib._cli.recorded_parser import Command, Option, Values


def _quote(text: str) -> str:
    """Quotes a text for any of the shells; fish alone minds a backslash in quotes."""
    return "'" + text.replace("\\", "").replace("'", "'\\''") + "'"


def _flags(command: Command) -> Iterable[str]:
    return (flag for option in command.options for flag in option.flags)


def _list_value_flags(command: Command) -> Iterable[tuple[str, Option, Values]]:
    """Returns the flags that take a value."""
    for option in command.options:
        if option.values is not None:
            for flag in option.flags:
                yield flag, option, option.values


def bash(parser: Command) -> str:
    """Writes the script for bash; it does without bash-completion, from 3.2 on."""
    cases = [
        f"        {_quote(f'{command.name}:{flag}')}) {_bash_values(values)} return ;;"
        for command in (parser, *parser.commands)
        for flag, _, values in _list_value_flags(command)
    ]
    places = [
        f"        {command.name}) {' '.join(map(_bash_values, command.places))} ;;"
        for command in parser.commands
        if command.places
    ]
    words = [
        f"        {_quote(command.name)}) _actorlib_add {' '.join(_flags(command))} ;;"
        for command in (parser, *parser.commands)
    ]
    names = " ".join(command.name for command in parser.commands)
    return "\n".join(
        [
            "# Completes actorlib in bash.",
            "_actorlib_add() {",
            "    local word",
            '    for word in "$@"; do',
            '        if [[ $word == "$cur"* ]]; then COMPREPLY+=("$word"); fi',
            "    done",
            "}",
            "_actorlib_ask() {",
            "    local word",
            "    while IFS= read -r word; do",
            '        if [[ $word == "$cur"* ]]; then',
            '            COMPREPLY+=("$(printf %q "$word")")',
            "        fi",
            '    done < <("${COMP_WORDS[0]/#\\~/$HOME}" completion "$1" 2>/dev/null)',
            "}",
            "_actorlib() {",
            "    local cur=${COMP_WORDS[COMP_CWORD]} command= i",
            "    local previous=${COMP_WORDS[COMP_CWORD - 1]}",
            "    COMPREPLY=()",
            "    # --sort=cpu is three words to bash.",
            "    if [[ $cur == = ]]; then",
            "        cur=",
            "    elif [[ $previous == = ]]; then",
            "        previous=${COMP_WORDS[COMP_CWORD - 2]}",
            "    fi",
            "    # No option in front of the command takes a value.",
            "    for ((i = 1; i < COMP_CWORD; i++)); do",
            "        if [[ ${COMP_WORDS[i]} != -* ]]; then",
            "            command=${COMP_WORDS[i]}",
            "            break",
            "        fi",
            "    done",
            '    case "$command:$previous" in',
            *cases,
            "    esac",
            "    if [[ $cur != -* ]]; then",
            '        case "$command" in',
            f"        '') _actorlib_add {names} ;;",
            *places,
            "        esac",
            "        # Options are offered where nothing else is.",
            "        if [[ ${#COMPREPLY[@]} -gt 0 || -n $cur ]]; then return; fi",
            "    fi",
            '    case "$command" in',
            *words,
            "    esac",
            "}",
            "complete -F _actorlib actorlib",
            "",
        ]
    )


def _bash_values(values: Values) -> str:
    if values.words:
        return f"_actorlib_add {' '.join(map(_quote, values.words))};"
    if values.source == FILES:
        return 'COMPREPLY+=($(compgen -f -- "$cur"));'
    return f"_actorlib_ask {values.source};" if values.source else ":;"


def zsh(parser: Command) -> str:
    """Writes the script for zsh: for a folder of its fpath, or to be evaluated."""
    cases = [
        f"    {_quote(f'{command.name}:{flag}')}) {_zsh_values(values)}; return ;;"
        for command in (parser, *parser.commands)
        for flag, _, values in _list_value_flags(command)
    ]
    places = [
        f"      {command.name}) {'; '.join(map(_zsh_values, command.places))} ;;"
        for command in parser.commands
        if command.places
    ]
    words = [
        f"    {_quote(command.name)}) described=({_zsh_options(command)}) ;;"
        for command in (parser, *parser.commands)
    ]
    names = " ".join(
        _quote(f"{command.name}:{command.about}") for command in parser.commands
    )
    return "\n".join(
        [
            "#compdef actorlib",
            "_actorlib_ask() {",
            "  local -a found",
            '  found=(${(f)"$(${~words[1]} completion $1 2>/dev/null)"})',
            "  compadd -a found",
            "}",
            "_actorlib() {",
            "  local command= word previous=${words[CURRENT-1]}",
            "  local -a described",
            "  for word in ${words[2,CURRENT-1]}; do",
            "    if [[ $word != -* ]]; then",
            "      command=$word",
            "      break",
            "    fi",
            "  done",
            "  if [[ ${words[CURRENT]} == --*=* ]]; then",
            "    previous=${words[CURRENT]%%=*}",
            "    compset -P '*='",
            "  fi",
            '  case "$command:$previous" in',
            *cases,
            "  esac",
            "  if [[ ${words[CURRENT]} == --*=* ]]; then return 1; fi",
            "  if [[ ${words[CURRENT]} != -* ]]; then",
            '    case "$command" in',
            f"      '') described=({names}); _describe command described; return ;;",
            *places,
            "    esac",
            "  fi",
            '  case "$command" in',
            *words,
            "  esac",
            "  _describe -o option described",
            "}",
            "# In a folder of fpath this file is the function itself.",
            'if [[ "${funcstack[1]}" == _actorlib ]]; then',
            '  _actorlib "$@"',
            "else",
            "  compdef _actorlib actorlib",
            "fi",
            "",
        ]
    )


def _zsh_values(values: Values) -> str:
    if values.words:
        return f"compadd -- {' '.join(map(_quote, values.words))}"
    if values.source == FILES:
        return "_files"
    return f"_actorlib_ask {values.source}" if values.source else ":"


def _zsh_options(command: Command) -> str:
    return " ".join(
        _quote(f"{flag}:{option.about}")
        for option in command.options
        for flag in option.flags
    )


def fish(parser: Command) -> str:
    """Writes the script for fish."""
    lines = [
        "# Completes actorlib in fish.",
        "function __actorlib_command_is",
        "    set -l words (commandline -opc)",
        "    set -e words[1]",
        "    # No option in front of the command takes a value.",
        "    for word in $words",
        "        if not string match -q -- '-*' $word",
        '            test "$word" = "$argv[1]"',
        "            return",
        "        end",
        "    end",
        '    test -z "$argv[1]"',
        "end",
        "function __actorlib_ask",
        "    set -l program (commandline -opc)[1]",
        "    if string match -q -- '~/*' $program",
        "        set program $HOME(string sub -s 2 -- $program)",
        "    end",
        "    if type -q $program",
        "        $program completion $argv[1] 2>/dev/null",
        "    end",
        "end",
        "complete -c actorlib -f",
        *(_fish_option("__actorlib_command_is", option) for option in parser.options),
    ]
    for command in parser.commands:
        arguments = f"-a {command.name} -d {_quote(command.about)}"
        lines.append(f"complete -c actorlib -n __actorlib_command_is {arguments}")
        when = _quote(f"__actorlib_command_is {command.name}")
        lines += [_fish_option(when, option) for option in command.options]
        lines += [
            f"complete -c actorlib -n {when} {_fish_values(values)}"
            for values in command.places
            if values != ((), "")
        ]
    return "\n".join([*lines, ""])


def _fish_option(when: str, option: Option) -> str:
    flags = " ".join(
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        for flag in option.flags
    )
    arguments = f"complete -c actorlib -n {when} {flags} -d {_quote(option.about)}"
    if option.values is None:
        return arguments
    if option.values == ((), ""):
        return f"{arguments} -x"
    return (
        f"{arguments} {'-r' if option.values.source == FILES else '-x'} "
        + _fish_values(option.values)
    )


def _fish_values(values: Values) -> str:
    if values.words:
        return f"-a {_quote(' '.join(values.words))}"
    if values.source == FILES:
        return "-F"
    return f"-a '(__actorlib_ask {values.source})'"


SCRIPTS: Final[Mapping[str, Callable[[Command], str]]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
"""What writes the script, by the name of the shell."""
