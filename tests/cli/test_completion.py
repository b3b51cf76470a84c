"""What shells complete, from what the parser says of itself."""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import info

from actorlib.__main__ import _parser
from actorlib._cli.completion import WHAT, words_for
from actorlib._cli.completion_scripts import SCRIPTS
from actorlib._cli.recorded_parser import Command, Option, RecordedParser, Values
from actorlib._cli.top_screen import SORT_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from actorlib.types import ActorInfo

BASH, FISH, ZSH = map(shutil.which, ("bash", "fish", "zsh"))

LIMIT = 60.0
"""Seconds that a shell may be silent for."""

ASK = """
for line in "$@"; do
    COMP_WORDS=($line)
    if [[ $line == *' ' ]]; then COMP_WORDS+=(""); fi
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _actorlib
    printf '%s\\n' "${COMPREPLY[@]}"
    printf '%s\\n' ---
done
"""


def test_parser_when_described_then_its_options_commands_and_places() -> None:
    parser = RecordedParser(prog="p", description="Does it: all of it.")
    parser.add_argument("--version", action="version", version="1")
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("one", description="Does one.")
    one.add_argument("-n", "--number", type=int, help="how many (default: 1)")
    one.add_argument("--pid", metavar="N", help="which")
    one.add_argument("-o", metavar="FILE", help="where")
    one.add_argument("--sort", choices=("a", "b"), help="how")
    one.add_argument("actor", metavar="ACTOR")

    told = parser.described()

    assert told.about == "Does it"
    assert [option.flags for option in told.options] == [
        ("-h", "--help"),
        ("--version",),
    ]
    assert [option.values for option in told.options] == [None, None]
    (command,) = told.commands
    assert command == Command(
        "one",
        "Does one",
        (
            Option(("-h", "--help"), "show this help message and exit", None),
            Option(("-n", "--number"), "how many", Values()),
            Option(("--pid",), "which", Values(source="pids")),
            Option(("-o",), "where", Values(source="files")),
            Option(("--sort",), "how", Values(("a", "b"))),
        ),
        (Values(source="actors"),),
    )


def test_command_line_when_described_then_nothing_is_left_out_that_help_shows() -> None:
    told = {command.name: command for command in _parser().described().commands}

    (commands,) = [
        action.choices
        for action in _parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    for name, parser in commands.items():
        known = {flag for option in told[name].options for flag in option.flags}
        shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", parser.format_usage()))
        assert shown <= known, name
    assert told.keys() == commands.keys()
    assert told["completion"].places == (Values(WHAT),)
    assert told["stack"].places == (Values(source="actors"),)
    sorts = {option.flags: option.values for option in told["top"].options}
    assert sorts["--sort",] == Values(tuple(SORT_KEYS))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """What stands for actorlib: it names three actors."""
    program = tmp_path / "bin" / "actorlib"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '%s\\n' 'm1' 'my model' 'other'\n", "utf-8")
    program.chmod(0o755)
    return program


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_when_asked_then_words_that_fit_the_place(program: Path) -> None:
    script = SCRIPTS["bash"](_parser().described()) + ASK
    lines = [
        "kil",
        "top --so",
        "top --sort c",
        "kill m",
        "ps --pid ",
        "top --interval ",
        "top --sort = c",  # as bash splits --sort=c
        "top --sort =",
    ]

    told = subprocess.run(
        [str(BASH), "-c", script, "bash", *(f"{program} {line}" for line in lines)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )

    assert told.stderr == ""
    answers = told.stdout.split("---\n")
    assert [answer.split("\n")[:-1] for answer in answers[:-1]] == [
        ["kill"],
        ["--sort"],
        ["cpu", "calls"],
        ["m1", "my\\ model"],
        ["m1", "my\\ model", "other"],
        [""],
        ["cpu", "calls"],
        list(SORT_KEYS),
    ]


@pytest.mark.process
@pytest.mark.skipif(FISH is None, reason="needs fish")
def test_fish_when_asked_then_words_that_fit_the_place(program: Path) -> None:
    offered = {
        "kil": ["kill"],
        "-h kil": ["kill"],
        "top --so": ["--sort"],
        "top --sort c": ["calls", "cpu"],
        "top --sort=c": ["--sort=calls", "--sort=cpu"],
        "kill m": ["m1", "my model"],
        "stack kill o": ["other"],
        "ps --pid ": ["m1", "my model", "other"],
        "top --interval ": [],
    }
    lines = "".join(
        f"complete -C '{typed} {line}'; echo ---\n"
        for typed in ("actorlib", program, "~/bin/actorlib")
        for line in offered
    )

    told = subprocess.run(
        [
            str(FISH),
            "--no-config",
            "-c",
            SCRIPTS["fish"](_parser().described()) + lines,
        ],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "HOME": str(program.parent.parent),
        },
    )

    assert told.stderr == ""
    answers = told.stdout.split("---\n")[:-1]
    words = [[w.split("\t")[0] for w in a.splitlines()] for a in answers]
    assert words == [*offered.values()] * 3


ZSHRC = """
autoload -Uz compinit
compinit -D -u
source ~/script
answer() {
    local line
    for line in "${(@f)ASKED}"; do
        BUFFER=$line
        CURSOR=$#BUFFER
        zle complete-word
        print -r -- "$BUFFER" >> ~/answers
    done
    BUFFER=exit
    zle accept-line
}
zle -N zle-line-init answer
"""


@pytest.mark.thorough
@pytest.mark.process
@pytest.mark.skipif(ZSH is None, reason="needs zsh")
@pytest.mark.parametrize("is_sourced", [True, False])
def test_zsh_when_asked_then_it_completes_what_fits_the_place(
    program: Path, tmp_path: Path, *, is_sourced: bool
) -> None:
    completed = {
        "kil": "kill ",
        "top --so": "top --sort ",
        "top --sort cp": "top --sort cpu ",
        "top --sort=cp": "top --sort=cpu ",
        "top --sort=x": "top --sort=x",
        "kill my": "kill my\\ model ",
        "ps --pid o": "ps --pid other ",
        "metrics --out": "metrics --out",
        "trace -o scr": "trace -o script ",
        "--vers": "--version ",
    }
    (tmp_path / "script").write_text(SCRIPTS["zsh"](_parser().described()), "utf-8")
    rc = ZSHRC
    if not is_sourced:  # in a folder of fpath, under the name of the function
        (tmp_path / "script").rename(tmp_path / "_actorlib")
        (tmp_path / "script").touch()
        rc = "fpath=(~ $fpath)\n" + rc
    (tmp_path / ".zshrc").write_text(rc, "utf-8")
    ours, theirs = pty.openpty()

    with os.fdopen(ours, "rb", buffering=0) as terminal:
        with os.fdopen(theirs, "rb", buffering=0) as seen:
            shell = subprocess.Popen(
                [str(ZSH), "-i"],
                stdin=seen,
                stdout=seen,
                stderr=seen,
                start_new_session=True,
                cwd=tmp_path,
                env={
                    "PATH": f"{program.parent}:/usr/bin:/bin",
                    "HOME": str(tmp_path),
                    "TERM": "dumb",
                    "ASKED": "\n".join(
                        f"{typed} {line}"
                        for typed in ("actorlib", "~/bin/actorlib")
                        for line in completed
                    ),
                },
            )
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal any more
            while select.select([terminal], [], [], LIMIT)[0]:
                part = terminal.read(4096)
                if not part:
                    break
                shown += part
            else:
                shell.kill()
    assert shell.wait() == 0, shown

    answers = (tmp_path / "answers").read_text("utf-8").splitlines()
    assert answers == [
        f"{typed} {line}"
        for typed in ("actorlib", "~/bin/actorlib")
        for line in completed.values()
    ]


def test_scripts_when_a_help_has_quotes_then_they_stay_quotes() -> None:
    parser = Command("", "", (Option(("--it",), "it's \\n mine", Values()),))

    for write in (SCRIPTS["zsh"], SCRIPTS["fish"]):
        assert "it'\\''s n mine'" in write(parser)


def row(**changed: Any) -> ActorInfo:
    return info(**{"name": None, "class_name": "A", "pid": 7, **changed})


def test_words_when_actors_have_no_name_then_their_class_or_pid() -> None:
    rows = [
        row(name="m1"),
        row(name="two\nlines"),
        row(class_name="Alone"),
        row(class_name="m1", pid=9),
        row(pid=7),
        row(pid=8),
        row(pid=0),
        row(class_name="Part", slot=0),
        row(class_name="Part", slot=1),
    ]

    words = ["m1", "Alone", "9", "7", "8", "Part[0]", "Part[1]"]
    assert list(words_for(rows)) == words
