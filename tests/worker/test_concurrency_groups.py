from __future__ import annotations

from actorlib._worker.executors.concurrency_groups import Gate, Gates


def frame(number: int) -> tuple[int, int, str]:
    return 2, number, "ping"


def test_gate_when_it_is_full_then_calls_go_in_their_order_but_those_dropped() -> None:
    gate = Gate(2)

    entered = [gate.enter(frame(number)) for number in range(1, 6)]

    assert entered == [True, True, False, False, False]
    assert repr(gate) == "<Gate 2 of 2 running, 3 waiting>"
    assert [gate.drop(4), gate.drop(4), gate.drop(1)] == [frame(4), None, None]
    assert [gate.leave() for _ in range(4)] == [frame(3), frame(5), None, None]
    assert gate.running == 0
    assert gate.enter(frame(6))


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
    assert gates.of("read", "unknown") is gates.of("read")


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
