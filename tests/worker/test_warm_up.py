"""A preforked child warms up with a whole actor, and is left as it was."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.program_runner import printed_by

from actorlib._wire.codec import decode_message
from actorlib._wire.messages import READY, RESULT, RESULT_SCALAR
from actorlib._worker.template.prefork import warm_up_frames

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only what forks is preforked"
)

PROGRAM = """
import json, os, sys
from actorlib._core.engine import find_engine
from actorlib._worker.template.prefork import run_warm_up, warm_up_frames

def there():
    return sorted(os.listdir("/proc/self/fd")), dict(os.environ), sys.path[:]

frames, before = warm_up_frames(), there()
sent = run_warm_up(frames)
assert there() == before, "it left something"
assert find_engine() is None
print(json.dumps([frame.hex() for frame in sent]))
"""


def test_warm_up_when_run_then_the_actor_answered_and_nothing_is_left() -> None:
    sent = [bytes.fromhex(frame) for frame in json.loads(printed_by(PROGRAM))]
    frames = [frame for data in sent for frame in decode_message(data)]
    assert [frame[0] for frame in frames] == [READY, RESULT_SCALAR, RESULT]


def test_script_when_made_then_its_class_travels_by_value() -> None:
    born, *_ = warm_up_frames()

    assert b"__main__" not in born
    assert b"WarmUp" in born
    assert b"_make_skeleton_class" in born


WARNING = """
import warnings
from actorlib._worker.os_process import ProcessTitle
from actorlib._worker.template import forkserver, preload

warnings.simplefilter("error")
preload.warm_up(ProcessTitle())
text = "This process (pid=1) is multi-threaded, use of fork() may lead to deadlocks"
warnings.warn_explicit(text, DeprecationWarning, "file.py", 1, forkserver.__name__)
"""


def test_template_when_it_forks_with_threads_then_python_does_not_warn() -> None:
    assert printed_by(WARNING) == ""
