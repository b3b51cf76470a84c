from __future__ import annotations

from actorlib._owner.actors.exit_reason import log_tail

FAULT = """\
terminate called
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/ours/_worker/looped.py", line 5 in run
  File "/usr/lib/python3.11/threading.py", line 1 in _bootstrap

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 3 in string_at
  File "/home/me/model.py", line 7 in crash
  File "/ours/_worker/serial.py", line 218 in _serve_call
  File "/ours/_worker/__main__.py", line 9 in live
  File "<string>", line 1 in <module>

Extension modules: msgpack._cmsgpack (total: 1)""".splitlines()


def test_log_tail_when_python_tells_of_a_fault_then_the_user_s_frames_alone() -> None:
    assert log_tail(FAULT, "/ours/").splitlines() == [
        "terminate called",
        "Fatal Python error: Segmentation fault",
        "Current thread 0x00007f02 (most recent call first):",
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 3 in string_at',
        '  File "/home/me/model.py", line 7 in crash',
    ]


def test_log_tail_when_it_was_not_in_the_user_s_code_then_the_error_alone() -> None:
    idle = [line for line in FAULT if "ctypes" not in line and "model.py" not in line]
    assert log_tail(idle, "/ours/").splitlines() == FAULT[:2]


def test_log_tail_when_the_thread_is_not_known_then_frames_of_all() -> None:
    lines = [line.replace("Current thread", "Thread") for line in FAULT]
    assert len(log_tail(lines, "/ours/").splitlines()) == 5


def test_log_tail_when_python_shows_the_stack_of_c_then_that_is_left_out() -> None:
    head = "Current thread's C stack trace (most recent call first):"
    frame = '  Binary file "/usr/lib/libc.so.6", at +0x406b0 [0x7fafc355b6b0]'
    lines = [*FAULT[:-1], head, *[frame] * 30, "", FAULT[-1]]  # as Python 3.14 does
    ours = "/ours/"
    assert log_tail(lines, ours) == log_tail(FAULT, ours)
    unknown = [line.replace("Current thread 0x", "Thread 0x") for line in lines]
    assert "Binary file" not in log_tail(unknown, ours)


def test_log_tail_when_a_traceback_has_our_frames_then_they_are_left_out() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/ours/_worker/serial.py", line 218, in _serve_call',
        '  File "/ours/_worker/executors/invoke.py", line 9, in invoke',
        "    value = method(*args, **kwargs)",
        "            ^^^^^^^^^^^^^^^^^^^^^^^",
        '  File "/home/me/model.py", line 7, in crash',
        "    raise SystemExit",
        "SystemExit: 3",
    ]
    assert log_tail(lines, "/ours/").splitlines() == [
        lines[0],
        *lines[5:],
    ]


def test_log_tail_when_there_are_many_then_the_last() -> None:
    assert log_tail([f"line {n}" for n in range(50)]).splitlines() == [
        f"line {n}" for n in range(30, 50)
    ]
