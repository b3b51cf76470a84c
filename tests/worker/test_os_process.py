"""What the kernel says of processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from actorlib._worker.os_process import is_ending


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says it elsewhere")
def test_process_when_it_has_ended_and_nobody_took_note_then_it_is_ending() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_ending(process.pid)
    assert not is_ending(os.getpid())
    assert not is_ending(process.pid)  # nobody knows: it is no more
