from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._wire.ordering import CallOrder

LANES = ["a", "b", "c"]


@dataclass
class Call:
    """A call that has not been sent."""

    number: int
    is_ready: bool
    passes: bool


class CallOrderMachine(RuleBasedStateMachine):
    """Compares with a simple model: each lane is the list of its calls that wait.

    Whenever something changes, a ready call is sent if it passes, or if it is the first
    of its lane.
    """

    def __init__(self) -> None:
        super().__init__()
        self.order: CallOrder[str, int] = CallOrder()
        self.lanes: dict[str, list[Call]] = defaultdict(list)
        self.sent: list[tuple[str, int]] = []
        self.count = 0

    def send_from(self, lane: str) -> list[int]:
        calls = self.lanes[lane]
        sent = [call for call in calls if call.is_ready and call.passes]
        calls[:] = [call for call in calls if call not in sent]
        while calls and calls[0].is_ready:
            sent.append(calls.pop(0))
        self.sent += [(lane, call.number) for call in sent]
        return [call.number for call in sent]

    @rule(lane=st.sampled_from(LANES), ready=st.booleans(), passes=st.booleans())
    def add(self, *, lane: str, ready: bool, passes: bool) -> None:
        self.count += 1
        self.lanes[lane].append(Call(self.count, ready, passes))

        is_sent = self.order.add(lane, self.count, ready=ready, passes=passes)

        assert ([self.count] if is_sent else []) == self.send_from(lane)

    @precondition(lambda self: any(self.lanes.values()))
    @rule(data=st.data())
    def resolve(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from([k for k, v in self.lanes.items() if v]))
        calls = [call for call in self.lanes[lane] if not call.is_ready]
        call = data.draw(st.sampled_from(calls))
        call.is_ready = True

        assert self.order.resolve(lane, call.number) == self.send_from(lane)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def resolve_what_was_sent(self, data: st.DataObject) -> None:
        lane, call = data.draw(st.sampled_from(self.sent))

        assert self.order.resolve(lane, call) == []

    @invariant()
    def there_is_a_lane_while_a_call_waits(self) -> None:
        assert bool(self.order) == any(self.lanes.values())


CallOrderMachine.TestCase.settings = settings(stateful_step_count=25)
TestCallOrder = CallOrderMachine.TestCase
