from __future__ import annotations

from actorlib._worker.executors.concurrency_groups import Gate, Gates


def frame(number: int) -> tuple[int, int, str]:
    return 2, number, "ping"


def test_gate_when_below_its_limit_then_calls_enter() -> None:
    gate = Gate(2)

    assert [gate.enter(frame(number)) for number in (1, 2, 3)] == [True, True, False]
    assert repr(gate) == "<Gate 2 of 2 running, 1 waiting>"


def test_gate_when_one_leaves_then_the_first_that_waits_goes() -> None:
    gate = Gate(1)
    for number in (1, 2, 3):
        gate.enter(frame(number))

    assert gate.leave() == frame(2)
    assert gate.leave() == frame(3)
    assert gate.leave() is None
    assert gate.running == 0
    assert gate.enter(frame(4))


def test_gate_when_a_waiting_call_is_dropped_then_it_never_goes() -> None:
    gate = Gate(1)
    for number in (1, 2, 3):
        gate.enter(frame(number))

    assert gate.drop(2) == frame(2)
    assert gate.drop(2) is None
    assert gate.drop(1) is None
    assert gate.leave() == frame(3)


def test_gate_when_others_take_places_then_calls_have_the_rest() -> None:
    gate = Gate(2)

    assert gate.take()
    gate.add()

    assert (gate.running, gate.take()) == (2, False)
    assert not gate.enter(frame(1))
    gate.add()
    assert gate.running == 3
    assert gate.leave() == frame(1)


def test_gates_when_asked_then_by_method_by_group_and_for_all_others() -> None:
    gates = Gates({"": 1, "io": 2, "compute": 4}, {"read": "io"})

    assert gates.of("read").limit == 2
    assert gates.of("ping").limit == 1
    assert gates.of("read", "compute").limit == 4
    assert gates.of("read") is gates.of("other", "io")


def test_gates_when_calls_wait_then_they_are_dropped_by_number_or_all() -> None:
    gates = Gates({"": 1, "io": 1}, {"read": "io"})
    assert gates.are_empty
    for number, method in enumerate(["ping", "ping", "read", "read"]):
        gates.of(method).enter(frame(number))

    assert not gates.are_empty
    assert gates.drop(3) == frame(3)
    assert gates.drop(0) is None
    gates.clear()
    assert gates.are_empty
    assert gates.drop(1) is None
