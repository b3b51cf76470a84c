"""What lives in the template is not counted by its forks, where that is known."""

from __future__ import annotations

import sys

import pytest
from helpers.program_runner import printed_by

from actorlib._worker.template.immortal import SWITCH, is_known

IS_TRIED = sys.implementation.name == "cpython" and (3, 12) <= sys.version_info < (
    3,
    14,
)

PROGRAM = """
import gc, json, os, re, sys, weakref
from actorlib._worker.template.immortal import immortal_steps, is_known

IMMORTAL = 0xFFFFFFFF

class Kept:
    def method(self):
        return "a constant of the method", ("a", "tuple")

class Dropped:
    pass

kept, names = Kept(), {"key": [object()]}
gc.collect()
gc.freeze()
assert is_known()
steps = sum(1 for _ in immortal_steps())
constants = Kept.method.__code__.co_consts
seen = [kept, names, names["key"], names["key"][0], Kept, Kept.method, json, json.dumps]
seen += [Kept.method.__code__, constants, *constants, sys.modules, re.compile]
counts = {sys.getrefcount(one) for one in seen}

later = Dropped()
before = sys.getrefcount(later)
several = [later] * 10
after = sys.getrefcount(later)
gone = weakref.ref(later)
del later, several
cycle = Dropped()
cycle.own = cycle
cycle_gone = weakref.ref(cycle)
del cycle
gc.unfreeze()
gc.collect()
names["key"].append(json.loads("[1, 2]"))
pid = os.fork()
if pid == 0:
    os._exit(0 if json.dumps(names["key"][1:]) == "[[1, 2]]" else 1)
ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(steps > 1, counts == {IMMORTAL}, after - before, gone(), cycle_gone(), ended)
"""


@pytest.mark.process
@pytest.mark.skipif(not IS_TRIED, reason="of other interpreters it is not known")
def test_objects_when_made_immortal_then_only_later_ones_are_counted() -> None:
    assert printed_by(PROGRAM) == "True True 10 None None 0"


@pytest.mark.process
def test_interpreter_when_it_is_another_or_it_is_turned_off_then_not_known() -> None:
    program = (
        "from actorlib._worker.template.immortal import is_known; print(is_known())"
    )

    assert printed_by(program) == str(IS_TRIED)
    assert printed_by(program, **{SWITCH: "0"}) == "False"


def test_interpreter_when_of_an_untried_version_then_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 15, 0))

    assert not is_known()


def test_interpreter_when_built_for_debugging_then_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "abiflags", "td")

    assert not is_known()
