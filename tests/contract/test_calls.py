"""Calls: their arguments, results and errors, and how many may have no answer."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Counter, Keeper, Log
from helpers.callers import error_of
from helpers.functions import add
from helpers.kinds import CONTRACT, FEW_KINDS, OWN_ENGINES, TWO_KINDS
from helpers.reused import Echo, Gate

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorDiedError,
    PendingCallsLimitExceeded,
    SerializationError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from helpers.actors import Stop
    from helpers.callees import Callee, Steps
    from helpers.callers import Api


pytestmark = [
    *CONTRACT,
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]

# Binding.


class Bound:
    def __init__(
        self, a: int, /, b: int, c: int = 3, *rest: int, d: int, **more: int
    ) -> None:
        self._made = (a, b, c, rest, d, more)

    def made(self) -> Any:
        return self._made

    def call(
        self, a: int, /, b: int, c: int = 3, *rest: int, d: int, **more: int
    ) -> Any:
        return a, b, c, rest, d, more

    def plain(self, a: int, b: int = 2) -> Any:
        return a, b

    def packed(self, *args: int, **kwargs: int) -> Any:
        return args, kwargs

    def named(self, *, a: int, b: int = 2) -> Any:
        return a, b

    def placed(self, a: int, b: int = 2, /) -> Any:
        return a, b

    @functools.lru_cache  # noqa: B019  # one instance, one process
    def cached(self, a: int, b: int = 2) -> Any:
        return a, b


FITTING: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((1, 2), {"d": 4}),
    ((1, 2, 30, 31, 32), {"d": 4, "e": 5, "f": 6}),
    ((1,), {"b": 2, "d": 4}),
    ((1, 2, 30), {"d": 4}),
    ((1,), {"d": 4, "c": 30, "b": 2}),
    ((1,), {"b": 2, "d": 4, "a": 10}),
    ((1, 2), {"d": 4, "args": 5, "kwargs": 6, "cls": 7}),
]
UNFITTING: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((1, 2), {}),
    ((1,), {"d": 4}),
    ((1, 2), {"b": 3, "d": 4}),
    ((), {"a": 1, "b": 2, "d": 4}),
    ((1, 2, 3), {"c": 4, "d": 4}),
]


CALLS: list[tuple[str, tuple[int, ...], dict[str, int]]] = [
    *(("call", args, kwargs) for args, kwargs in FITTING),
    ("plain", (1,), {}),
    ("plain", (1, 5), {}),
    ("plain", (), {"b": 1, "a": 5}),
    ("packed", (), {}),
    ("packed", (1, 2, 3), {"a": 4}),
    ("named", (), {"a": 1}),
    ("named", (), {"b": 3, "a": 1}),
    ("placed", (1,), {}),
    ("placed", (1, 5), {}),
    ("cached", (1,), {"b": 5}),
]
REFUSED_CALLS: list[tuple[str, tuple[int, ...], dict[str, int]]] = [
    *(("call", args, kwargs) for args, kwargs in UNFITTING),
    ("plain", (), {}),
    ("plain", (1, 2, 3), {}),
    ("plain", (1,), {"a": 1}),
    ("plain", (1,), {"z": 1}),
    ("named", (1,), {"a": 1}),
    ("named", (), {"b": 1}),
    ("placed", (), {"a": 1}),
    ("placed", (1,), {"b": 1}),
]


class Functions:
    """The methods of ``Bound`` as remote functions, whose first argument is None."""

    def __init__(self) -> None:
        self._functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = actorlib.remote(vars(Bound)[name])
        return functools.partial(self._functions[name].remote, None)


class Methods:
    """The same as methods of an actor."""

    def __init__(self) -> None:
        self._actor = actorlib.remote(Bound).remote(1, 2, d=4)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name).remote


# On Ray, each function has processes of its own.
BOUND = pytest.mark.parametrize(
    "kind", [pytest.param(Functions, marks=OWN_ENGINES), Methods]
)


@BOUND
async def test_arguments_when_they_fit_then_they_are_bound_as_in_a_local_call(
    api: Api, kind: Callable[[], Any]
) -> None:
    local, remote = Bound(1, 2, d=4), kind()
    calls = [call for call in CALLS if kind is Methods or call[0] != "cached"]

    refs = [getattr(remote, name)(*args, **kwargs) for name, args, kwargs in calls]

    assert await api.get(refs) == [
        getattr(local, name)(*args, **kwargs) for name, args, kwargs in calls
    ]


@BOUND
async def test_arguments_when_they_do_not_fit_then_refused_at_the_call(
    api: Api, kind: Callable[[], Any]
) -> None:
    local, remote = Bound(1, 2, d=4), kind()
    for name, args, kwargs in REFUSED_CALLS:
        with pytest.raises(TypeError):
            getattr(local, name)(*args, **kwargs)
        with pytest.raises(TypeError, match=rf"^(Bound\.)?{name}\(\) "):
            getattr(remote, name)(*args, **kwargs)

    assert await api.get(remote.plain(1)) == (1, 2)


@OWN_ENGINES
async def test_constructor_when_given_arguments_then_they_are_bound_likewise(
    api: Api, *, is_on_ray: bool
) -> None:
    cls = actorlib.remote(Bound)
    fitting = FITTING[1:3] if is_on_ray else FITTING  # each is an interpreter there
    actors = [cls.remote(*args, **kwargs) for args, kwargs in fitting]

    assert await api.get([actor.made.remote() for actor in actors]) == [
        Bound(*args, **kwargs).made() for args, kwargs in fitting
    ]
    for args, kwargs in UNFITTING:
        with pytest.raises(TypeError, match=r"^Bound\(\) "):
            cls.remote(*args, **kwargs)


class Words:
    def __init__(self, /, **words: int) -> None:
        self._words = words

    def words(self, /, **more: int) -> dict[str, int]:
        return {**self._words, **more}


@OWN_ENGINES
async def test_arguments_when_one_is_named_self_then_it_is_a_keyword(api: Api) -> None:
    words = actorlib.remote(Words).remote(self=1)

    assert await api.get(words.words.remote(a=2)) == {"self": 1, "a": 2}
    assert await api.get(words.words.remote(self=3)) == {"self": 3}


async def test_arguments_when_given_by_the_older_name_then_they_are_the_same(
    api: Api,
) -> None:
    cls: Any = Counter
    function: Any = add
    counter = cls._remote(args=[5])

    assert await api.get(counter.add._remote(kwargs={"number": 2})) == 7
    assert await api.get(function._remote([1], {"second": 2}, num_cpus=1)) == 3
    assert await api.get(function._remote(args=(1,))) == 1


# Values as they are when the call is made.


class Box:
    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]

    def append(self, item: int) -> None:
        self.items.append(item)


MAKERS: list[Callable[[], Any]] = [
    lambda: [1],
    lambda: [1, [2]],
    lambda: [0] * 20_000,
    lambda: bytearray(400_000),
    lambda: Box([1, 2]),
]


async def test_argument_when_changed_after_the_call_then_the_callee_has_it_as_it_was(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    values = [make() for make in MAKERS]
    array = np.zeros(100_000)
    at_once = [callee.first(value) for value in values]
    total = callee.run(np.sum, array)
    late = gate.wait.remote()
    later = [callee.all(late, value) for value in values]
    late_total = callee.run(np.dot, array, array)
    for value in values:
        value.append(9)
    array += 1
    await api.get(gate.open.remote())

    assert await api.get(at_once) == [make() for make in MAKERS]
    assert await api.get(later) == [("", make()) for make in MAKERS]
    assert await api.get([total, late_total]) == [0, 0]


@OWN_ENGINES
async def test_result_when_changed_then_the_actor_still_has_its_own(api: Api) -> None:
    keeper = Keeper.remote()
    values: list[list[Any]] = [[1, [2]], ["flat"]]
    for value in values:
        await api.get(keeper.keep.remote(value))
        result = await api.get(keeper.kept.remote())
        result.append("changed")

        assert await api.get(keeper.kept.remote()) == value
        assert result is not value


# The result of a call, and the errors that it may end with.


def fail(error: BaseException) -> None:
    raise error


def return_nothing() -> None: ...


async def test_call_when_it_returns_then_its_value(api: Api, callee: Callee) -> None:
    ref = callee.run(divmod, 7, 3)

    assert await api.get(ref) == (2, 1)
    assert await api.get([callee.run(len, "x" * n) for n in range(20)]) == [*range(20)]
    assert await api.get(callee.run(return_nothing)) is None


async def test_call_when_it_raises_then_the_error_has_both_classes(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(fail, KeyError("lost"))
    error = await error_of(api, ref)

    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert (error.args, type(error.cause)) == (("lost",), KeyError)
    assert "raise error" in error.traceback_str
    assert "run" in error.where
    assert isinstance(error, actorlib.blocking.exceptions.RayTaskError)
    assert isinstance(error.as_instanceof_cause(), KeyError)
    for _ in range(2):
        assert isinstance(await error_of(api, ref), KeyError)


async def test_result_when_it_cannot_be_sent_then_that_call_alone_fails(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(threading.Lock))

    assert isinstance(error, TaskError)
    assert isinstance(error, TypeError)
    assert await api.get(callee.run(len, "ab")) == 2


async def test_argument_when_it_cannot_be_sent_then_refused_at_the_call(
    api: Api, callee: Callee
) -> None:
    with pytest.raises(SerializationError, match="run"):
        callee.run(len, asyncio.get_running_loop())
    with pytest.raises(TypeError, match="lock"):
        callee.run(len, threading.Lock())

    assert await api.get(callee.run(len, "ab")) == 2


def ask_and_fail(echo: Any) -> Any:
    yield echo.fail.remote(LookupError("far"))


async def test_error_when_it_crosses_two_calls_then_it_keeps_its_class(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(ask_and_fail, Echo.remote()))

    assert isinstance(error, LookupError)
    assert str(error) == "far"


# Calls that return several values, each with a ref of its own: ``num_returns``.


def parts_of(callee: Callee, count: int, function: Any, *args: Any) -> Any:
    """What a call with ``num_returns`` returns at once."""
    return callee.method("run", num_returns=count).remote(function, *args)


async def test_num_returns_when_a_tuple_is_returned_then_each_value_has_a_ref(
    api: Api, callee: Callee
) -> None:
    assert await api.get(list(parts_of(callee, 2, divmod, 7, 3))) == [2, 1]
    assert await api.get(parts_of(callee, 1, divmod, 7, 3)) == (2, 1)
    assert parts_of(callee, 0, divmod, 7, 3) is None
    assert await api.get(callee.run(divmod, 7, 3)) == (2, 1)


def divmod_of(one: int, other: int) -> tuple[int, int]:
    return divmod(one, other)


async def test_num_returns_when_there_are_not_so_many_values_then_each_ref_fails(
    api: Api, callee: Callee
) -> None:
    for function, message in (
        (divmod_of, "returned 2 values, and was called with num_returns=3"),
        (max, "returned a int"),
    ):
        for part in parts_of(callee, 3, function, 7, 3):
            with pytest.raises(TaskError, match=message) as caught:
                await api.get(part)
            assert isinstance(caught.value, ValueError)


class NoEntriesError(ValueError):
    """Is false, like the collected errors of some libraries without entries."""

    def __len__(self) -> int:
        return 0


def raise_false() -> None:
    raise NoEntriesError("bad")


@FEW_KINDS
async def test_num_returns_when_the_error_is_false_then_each_ref_has_it(
    api: Api, callee: Callee
) -> None:
    for part in parts_of(callee, 2, raise_false):
        error = await error_of(api, part)
        assert isinstance(error, NoEntriesError)
        assert isinstance(error, TaskError)


def call_for_parts(pair: Any, three: Any) -> Generator[Any, Any, list[int]]:
    first, second = pair.remote(7, 3)
    values = yield [first, second]
    return values + (yield list(three.remote()))


def yield_three() -> Iterator[int]:
    yield 4
    yield 5
    yield 6


@FEW_KINDS
async def test_num_returns_when_a_callee_calls_then_it_has_the_refs(
    api: Api, callee: Callee
) -> None:
    pair = actorlib.remote(num_returns=2)(divmod_of)
    three = actorlib.remote(num_returns=3)(yield_three)

    assert await api.get(callee.run(call_for_parts, pair, three)) == [2, 1, 4, 5, 6]


# Parts of results as arguments.


def pass_gate_and_return(
    gate: Any, error: BaseException | None = None
) -> Generator[Any, Any, tuple[list[int], list[int]]]:
    yield gate.wait.remote("parts")
    if error is not None:
        raise error
    return [1], [2, 3]


def lengths_of(parts: list[Any], *others: list[int]) -> Generator[Any, Any, list[int]]:
    values = yield parts
    return [*map(len, values), *map(len, others)]


@FEW_KINDS
async def test_part_when_it_is_sent_before_it_is_there_then_its_value_arrives(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    first, second = parts_of(callee, 2, pass_gate_and_return, gate)
    echo, other = Echo.remote(), callee.new()
    keeper = Keeper.remote(second)
    both = echo.both.remote(first, second)
    lengths = other.run(lengths_of, [first, second, first], second)
    list_ref = api.put([first, second])
    await api.get(gate.open.remote("parts"))

    assert await api.get(both) == (([1], [2, 3]), {})
    assert await api.get(keeper.kept.remote()) == [2, 3]
    assert await api.get(lengths) == [1, 2, 1, 2]
    assert await api.get(await api.get(list_ref)) == [[1], [2, 3]]
    assert await api.get(echo.echo.remote(first)) == [1]


@OWN_ENGINES
@FEW_KINDS
async def test_part_when_its_call_fails_then_the_call_that_has_it_fails(
    api: Api, callee: Callee
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    part, _ = parts_of(callee, 2, pass_gate_and_return, gate, KeyError("no parts"))
    failed = echo.echo.remote(part)
    await api.get(gate.open.remote("parts"))

    assert isinstance(await error_of(api, failed), KeyError)


# The option max_pending_calls: how many calls may be without an answer.


def limited(limit: int | None) -> Any:
    return actorlib.remote(max_pending_calls=limit)(Log).remote()


async def test_call_when_as_many_as_the_limit_are_unanswered_then_refused_at_once(
    api: Api, stop: Stop
) -> None:
    log = limited(10)
    refs = [log.stop.remote(stop.place, 0)]
    refs += [log.note.remote(number) for number in range(1, 10)]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls=10") as full:
        log.note.remote(10)
    assert full.value.limit == 10
    await stop.reached()
    with pytest.raises(PendingCallsLimitExceeded):
        log.seen.remote()

    stop.release()
    assert await api.get(refs) == [*range(10)]
    refs = [log.note.remote(number) for number in range(10)]
    assert await api.get(refs) == [*range(10)]


def wait_at(gate: Any) -> Steps:
    yield gate.wait.remote()


@TWO_KINDS
async def test_call_when_others_failed_or_were_refused_then_those_do_not_count(
    api: Api, callee: Callee
) -> None:
    callee, gate = callee.new(max_pending_calls=2, max_concurrency=1), Gate.remote()
    running = callee.run(wait_at, gate)
    await api.get(gate.reached.remote())
    for _ in range(5):
        with pytest.raises(TypeError):
            callee.method("run").remote()
        with pytest.raises(TypeError):
            callee.run(len, threading.Lock())
    waiting = callee.run(len, "a")
    with pytest.raises(PendingCallsLimitExceeded):
        callee.run(len, "ab")

    api.cancel(waiting)
    assert isinstance(await error_of(api, waiting), TaskCancelledError)
    waiting = callee.run(len, "abc")
    await api.kill(callee.actor)
    for ref in (running, waiting):
        assert isinstance(await error_of(api, ref), ActorDiedError)
    assert isinstance(await error_of(api, callee.run(len, "a")), ActorDiedError)


def call_until_refused(log: Any) -> tuple[int, int]:
    """How many calls are accepted, and the limit of the error."""
    refs: list[Any] = []
    try:
        while True:
            refs.append(log.note.remote("from a worker"))
    except PendingCallsLimitExceeded as error:
        return len(refs), error.limit


def call_again_and_again(log: Any) -> Steps:
    total = 0
    for number in range(50):
        total += yield log.note.remote(number)
    return total


@FEW_KINDS
async def test_call_when_processes_share_an_actor_then_each_has_its_own_limit(
    api: Api, callee: Callee, stop: Stop
) -> None:
    log = limited(2)
    refs = [log.stop.remote(stop.place), log.note.remote(1)]
    await stop.reached()

    assert await api.get(callee.run(call_until_refused, log)) == (2, 2)
    with pytest.raises(PendingCallsLimitExceeded):
        log.note.remote(2)
    stop.release()
    await api.get(refs)


@FEW_KINDS
async def test_call_when_a_worker_has_the_answer_then_it_may_call_again(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(call_again_and_again, limited(1))

    assert await api.get(ref) == sum(range(50))


@OWN_ENGINES
async def test_calls_when_there_is_no_limit_then_thousands_are_accepted(
    api: Api,
) -> None:
    for limit in (None, 0, -1):
        log = limited(limit)
        refs = [log.note.remote(number) for number in range(2_000)]

        assert await api.get(refs) == [*range(2_000)], limit
