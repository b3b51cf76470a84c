"""Starts the process of the template, with as few imports as possible.

The template loads while the owner imports the launcher.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.import_path import import_path
from actorlib._processes.kept_descriptors import KeptDescriptors
from actorlib._wire.forkserver_protocol import MARK_VARIABLE, worker_mark

if TYPE_CHECKING:
    from collections.abc import Sequence

FORKING = "fork"
SHARING = "share"
"""Forking; the template imports NumPy once a worker has imported it."""
SPAWNING = "spawn"
"""Starting interpreters."""

_HERE = os.path.abspath(__file__)  # noqa: PTH100  # pathlib takes longer than a fork
_PACKAGES = _HERE.rsplit(os.sep, 3)[0]
# Imported objects are permanent: the collector would find nothing.
_BOOTSTRAP = (
    "import gc, json, sys; gc.disable(); sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from actorlib._worker.template.forkserver import main; main()"
)


class BegunTemplate(NamedTuple):
    """The process of a template that no launcher listens to yet.

    Attributes:
        sock: The owner's end; the template ends when it is closed.
        kept: The descriptors that the template keeps open.
    """

    mark: str
    sock: socket.socket
    kept: KeptDescriptors
    process: subprocess.Popen[bytes]


def new_mark() -> str:
    """Creates the mark of a runtime, which all its processes carry."""
    return os.urandom(8).hex()


def begin_template(method: str, preload: Sequence[str]) -> BegunTemplate | None:
    """Starts a template. None if that fails: the launcher tries again and reports why.

    This blocks the loop for the milliseconds of a fork, as the owner's imports do.
    """
    mark = new_mark()
    with suppress(OSError):
        with ExitStack() as opened:
            kept = KeptDescriptors()
            opened.callback(kept.close)
            ours, theirs = socket.socketpair()
            opened.callback(ours.close)
            with theirs:
                process = start_template(method, preload, mark, theirs, kept)
            opened.pop_all()
        return BegunTemplate(mark, ours, kept, process)
    return None


def start_template(
    method: str,
    preload: Sequence[str],
    mark: str,
    control: socket.socket,
    kept: KeptDescriptors,
) -> subprocess.Popen[bytes]:
    """Starts the process of a template, with its ends of its socket pairs."""
    descriptors = [control.fileno(), kept.end.fileno()]
    environment = {**os.environ, MARK_VARIABLE: worker_mark(mark, 0)}
    if method == SPAWNING:
        # A fresh interpreter has to find this package before it gets sys.path.
        own = os.environ.get("PYTHONPATH")
        paths = [_PACKAGES, own] if own else [_PACKAGES]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            _BOOTSTRAP,
            json.dumps(import_path()),
            ",".join(map(str, descriptors)),
            str(os.getpid()),
            mark,
            method,
            *preload,
        ],
        pass_fds=descriptors,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
