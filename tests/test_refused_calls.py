"""A runtime where the kernel refuses a system call, as seccomp profiles do."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.rare_cases import rarely

ROOT = Path(__file__).parents[1]
LIMIT = 50.0

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {
        "clone3": 435,
        "epoll_create1": 291,
        "memfd_create": 319,
        "pidfd_open": 434,
        "recvmsg": 47,
        "sendmsg": 46,
        "setsid": 112,
        "socketpair": 53,
        "waitid": 247,
    },
    "aarch64": {
        "clone3": 435,
        "epoll_create1": 20,
        "memfd_create": 279,
        "pidfd_open": 434,
        "recvmsg": 212,
        "sendmsg": 211,
        "setsid": 157,
        "socketpair": 199,
        "waitid": 95,
    },
}
MACHINE = platform.machine()

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or MACHINE not in NUMBERS, reason="seccomp is Linux's"
    ),
]

FILTER = """
import ctypes, errno, os, struct, sys

arch, number, refusal = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
steps = [
    (LOAD, 0, 0, 4),
    (EQUAL, 0, 3, arch),
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 1, number),
    (RETURN, 0, 0, ERRNO | refusal),
    (RETURN, 0, 0, ALLOW),
]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *s) for s in steps))
header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
prctl = ctypes.CDLL(None).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTERED = 38, 22, 2
if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
    PR_SET_SECCOMP, FILTERED, ctypes.create_string_buffer(header), 0, 0
):
    sys.exit(77)
os.execv(sys.executable, [sys.executable, *sys.argv[4:]])
"""
PROGRAM = """
import actorlib

@actorlib.remote
class Actor:
    def size(self, value):
        return len(value)

    def make(self):
        return bytes(2_000_000)

async def main():
    async with actorlib.init(num_cpus=1):
        actor = Actor.remote()
        print(await actor.size.remote(bytes(3_000_000)), len(await actor.make.remote()))

actorlib.run(main())
"""


SCRIPT = "import actorlib.blocking as ray\nray.init(num_cpus=1)"


def run_without(
    call: str, refusal: int, program: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    numbers = AUDIT_ARCH[MACHINE], NUMBERS[MACHINE][call], refusal
    done = subprocess.run(
        [sys.executable, "-c", FILTER, *map(str, numbers), "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this process may not install a filter")
    return done


EPERM, ENOSYS = 1, 38


@pytest.mark.parametrize(
    ("call", "refusal", "message"),
    [
        ("sendmsg", EPERM, r"Actor is dead: .* in 'return sock.sendmsg\("),
        ("socketpair", EPERM, r"TemplateError: there can be no event loop: .*socketp"),
        *rarely(
            ("clone3", EPERM, r"TemplateError: the runtime cannot start: .*clone3"),
            ("epoll_create1", ENOSYS, r"TemplateError: there can be no event loop: "),
            ("recvmsg", EPERM, r"actorlib: the template ends: .*_control.recvmsg"),
            ("setsid", EPERM, r"TemplateError: the template cannot be started: "),
            ("waitid", ENOSYS, r"actorlib: the template ends: .*os.waitid"),
        ),
    ],
)
def test_start_when_a_needed_call_is_refused_then_the_error_names_seccomp(
    call: str, refusal: int, message: str
) -> None:
    done = run_without(call, refusal)

    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if "seccomp" in line]
    assert any(re.search(message, line) for line in lines), done.stderr


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("memfd_create", EPERM),
        *rarely(("pidfd_open", EPERM), ("pidfd_open", ENOSYS), ("clone3", ENOSYS)),
    ],
)
def test_runtime_when_another_call_is_refused_then_it_works_without(
    call: str, refusal: int
) -> None:
    done = run_without(call, refusal)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "3000000 2000000\n"
    if call == "memfd_create":
        assert "seal no files in memory, see 'actorlib doctor'" in done.stderr
    else:
        assert not done.stderr


@pytest.mark.thorough
def test_script_when_it_can_have_no_thread_then_the_error_names_seccomp() -> None:
    done = run_without("clone3", EPERM, SCRIPT)

    last = done.stderr.splitlines()[-1]
    assert "TemplateError: the runtime cannot start: can't start new thread" in last
    assert "seccomp" in last
