"""What an actor is called in everything that people read."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Gate, Target, running

import actorlib
from actorlib._base.labels import Label, own_name
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    DeadlineExceededError,
    PendingCallsLimitExceeded,
    SerializationError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime
    from actorlib._options.runtime_options import RuntimeKeywords


@pytest.mark.process
@pytest.mark.parametrize(
    ("label", "whole", "method"),
    [
        (Label("Model"), "Model", "Model.ping"),
        (Label("Model", "m1"), "Model 'm1'", "Model.ping of 'm1'"),
        (Label("Model", None, "Model(3)"), "Model(3)", "Model(3).ping"),
        (Label("Model", "m1", "<three>"), "<three> 'm1'", "<three>.ping of 'm1'"),
        (Label("Model", slot=2), "Model[2]", "Model[2].ping"),
        (Label("Model", None, "big", 0), "big[0]", "big[0].ping"),
    ],
)
def test_label_when_told_then_with_what_is_known(
    label: Label, whole: str, method: str
) -> None:
    assert str(label) == label.at(0) == whole
    assert label.at(812) == f"{whole} (pid 812)"
    assert label.method("ping") == method
    assert label.method("ping", 812) == f"{method} (pid 812)"
    assert label.class_name == "Model"


class Told:
    def __init__(self, told: object) -> None:
        self._told = told

    def __repr__(self) -> str:
        if isinstance(self._told, BaseException):
            raise self._told
        return self._told  # type: ignore[return-value]  # that is what is tried


class Grown(list[int]):
    """One whose repr is written in C, and as long as itself."""


@pytest.mark.process
@pytest.mark.parametrize(
    ("instance", "own"),
    [
        (Told("Model(3)"), "Model(3)"),
        (Told("größe 3"), "größe 3"),
        (Told("x" * 100), "x" * 100),
        (Told("x" * 101), ""),
        (Told(""), ""),
        (Told("two\nlines"), ""),
        (Told("\x1b[31mred"), ""),
        (Told(3), ""),
        (Told(RuntimeError("no words")), ""),
        (Told(SystemExit(3)), ""),
        (Grown([1, 2]), ""),
        (object(), ""),
    ],
)
def test_own_name_when_the_repr_is_of_use_then_that(instance: object, own: str) -> None:
    assert own_name(instance) == own


# What is seen of it.


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 4, "grace": 0.5}


@actorlib.remote
class Model:
    def __init__(self) -> None:
        self.asked = 0

    def __repr__(self) -> str:
        self.asked += 1
        return "Model(3)"

    def reprs(self) -> int:
        return self.asked

    def fail(self, _: object = None) -> None:
        raise ValueError("no")

    async def fail_later(self) -> None:
        raise ValueError("no")

    def lock(self) -> object:
        return threading.Lock()

    async def forever(self) -> None:
        await asyncio.Event().wait()

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def pid(self) -> int:
        return os.getpid()


def in_process(test: Any) -> Any:
    """Marks a test that uses the module's runtime."""
    test = pytest.mark.usefixtures("runtime")(test)
    return pytest.mark.memory(pytest.mark.asyncio(loop_scope="module")(test))


@in_process
async def test_errors_when_a_method_fails_then_they_name_the_actor() -> None:
    plain = Caller.options(name="m1").remote()
    model = Model.options(name="m2").remote()
    pids = await asyncio.gather(plain.run.remote(os.getpid), model.pid.remote())

    for ref, where in (
        (plain.run.remote(_raise), f"Caller.run of 'm1' (pid {pids[0]})"),
        (model.fail.remote(), f"Model(3).fail of 'm2' (pid {pids[1]})"),
        (model.fail_later.remote(), f"Model(3).fail_later of 'm2' (pid {pids[1]})"),
    ):
        with pytest.raises(TaskError) as caught:
            await ref
        assert caught.value.where == where
        assert where in str(caught.value.__cause__)
    assert await model.reprs.remote() == 1


@in_process
async def test_death_when_it_is_told_then_by_name_and_process(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model.options(name="m1", max_restarts=1).remote()
    first = await model.pid.remote()

    with pytest.raises(ActorUnavailableError) as lost:
        await model.die.remote()
    await model
    second = await model.pid.remote()
    seen = runtime.explain(model)
    with pytest.raises(ActorDiedError) as died:
        await model.die.remote()

    assert str(lost.value).startswith(f"Model(3) 'm1' (pid {first}) is restarting")
    assert str(died.value).startswith(f"Model(3) 'm1' (pid {second}) is dead")
    assert seen == f"Model(3) 'm1' (pid {second}) is alive on no device"
    logged = [record.getMessage() for record in caplog.records]
    assert any(text.startswith(f"Model(3) 'm1' (pid {first}) re") for text in logged)
    assert logged[-1].startswith(f"Model(3) 'm1' (pid {second}) is dead")


@actorlib.remote
class Part:
    """Prints and fails."""

    def speak(self) -> None:
        print("spoken", flush=True)  # noqa: T201  # output of an actor

    def fail(self) -> None:
        raise ValueError("no")


@pytest.mark.process
async def test_replica_when_it_prints_or_fails_then_by_its_number() -> None:
    async with running(num_cpus=2) as runtime:
        async with actorlib.Replicas(Part, 2) as parts:
            replicas = [each.handle for each in parts.stats()]
            await asyncio.gather(*(replica.speak.remote() for replica in replicas))
            rows = {row.label: row for row in actorlib.list_actors()}
            assert sorted(rows) == ["Part[0]", "Part[1]"]
            assert actorlib.list_named_actors() == []
            with pytest.raises(TaskError) as failed:
                await replicas[1].fail.remote()
            assert failed.value.where == f"Part[1].fail (pid {rows['Part[1]'].pid})"

            await parts.replace()
            assert {row.label for row in actorlib.list_actors()} == set(rows)
        # Those that have ended have printed all.
        lines = [line for line in runtime.logs() if line.text == "spoken"]
        assert sorted(line.label for line in lines) == ["Part[0]", "Part[1]"]


@in_process
@pytest.mark.parametrize("kind", [Caller, AsyncCaller])
async def test_deadline_when_it_is_over_then_whose_call_it_was(
    kind: Any,
) -> None:
    model, caller = Model.options(name="m1").remote(), kind.remote()
    pids = await asyncio.gather(model.pid.remote(), caller.run.remote(os.getpid))

    with pytest.raises(DeadlineExceededError) as own:
        await model.forever.options(timeout=0.1).remote()
    with pytest.raises(DeadlineExceededError) as inherited:
        await caller.call.options(timeout=0.5).remote(model, "forever")

    named = f"Model(3).forever of 'm1' (pid {pids[0]}) was not done within the"
    assert str(own.value).startswith(f"{named} 0.1 s that it")
    giver = f"{kind.__name__}.call (pid {pids[1]})"
    assert giver in str(inherited.value)


@in_process
async def test_handle_when_its_actor_has_a_name_then_it_says_so() -> None:
    target = Target.options(name="m1").remote()
    caller = Caller.remote()

    assert repr(target).startswith("Actor(Target 'm1', ")
    assert repr(actorlib.get_actor("m1")) == repr(target)
    assert repr(target.ping) == "<method Target.ping of 'm1'>"
    assert await caller.run.remote(repr, target) == repr(target)
    assert await caller.run.remote(_found, "m1") == repr(target)


@in_process
async def test_ref_when_it_is_pending_then_which_call_it_is_of() -> None:
    gate, stream = Gate.options(name="g").remote(), Stream.options(name="s").remote()
    pids = [await each.__ray_call__.remote(_pid_of) for each in (gate, stream)]
    coming = gate.wait.remote("there")
    held, items = gate.wait.remote(coming), stream.items.remote()
    parts = gate.wait.options(num_returns=2).remote("parts")
    function = wait_there.remote(gate, coming)
    running = wait_there.remote(gate, "there")

    of_gate = f"<ObjectRef pending: Gate.wait of 'g' (pid {pids[0]})>"
    of_stream = f"Stream.items of 's' (pid {pids[1]})"
    assert {_told(ref) for ref in (coming, held, *parts)} == {of_gate}
    assert repr(items) == f"<ObjectRefGenerator running: {of_stream}>"
    assert repr(items.completed()) == f"<ObjectRef pending: {of_stream}>"
    assert repr(function) == "<ObjectRef pending: wait_there>"
    await gate.reached.remote("there")
    await gate.open.remote("there")
    await asyncio.gather(coming, held, running, function)
    assert repr(coming) == "<ObjectRef finished result='there'>"
    assert repr(actorlib.put(3)) == "<ObjectRef finished result=3>"
    items.close()


@in_process
@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller, None])
async def test_ref_when_it_is_of_a_worker_then_which_call_it_is_of(
    caller_class: Any,
) -> None:
    gate, stream = Gate.options(name="g").remote(), Stream.remote()
    await asyncio.gather(gate, stream)

    if caller_class is None:
        shown = await actorlib.remote(_shown).remote(gate, stream)
    else:
        shown = await caller_class.remote().run.remote(_shown, gate, stream)

    assert shown == [
        "<ObjectRef pending: Gate.wait of 'g'>",
        "<ObjectRef pending: Gate.wait of 'g'>",
        "<ObjectRef pending: Gate.wait of 'g'>",
        "<ObjectRef pending: Gate.wait of 'g'>",
        "<ObjectRef pending: wait_there>",
        "<ObjectRefGenerator running: Stream.items>",
        "<ObjectRef pending: Stream.items>",
        "<ObjectRef finished result=3>",
    ]


@in_process
async def test_error_when_a_value_or_a_call_is_refused_then_it_names_the_actor() -> (
    None
):
    model = Model.options(name="m1", max_pending_calls=1).remote()
    pid = await model.pid.remote()

    with pytest.raises(SerializationError, match=r"Model\(3\)\.fail of 'm1'"):
        model.fail.remote(threading.Lock())
    with pytest.raises(TypeError, match=rf"Model\(3\)\.lock of 'm1' \(pid {pid}\)"):
        await model.lock.remote()
    with pytest.raises(ActorAlreadyExistsError, match=rf"Model.*\(pid {pid}\)"):
        Target.options(name="m1").remote()
    ref = model.pid.remote()
    with pytest.raises(PendingCallsLimitExceeded, match=r"Model\.pid of 'm1': this"):
        model.pid.remote()
    await ref


@actorlib.remote
class Unborn:
    def __init__(self) -> None:
        raise ValueError("no")


@in_process
async def test_traceback_when_told_then_it_begins_in_the_user_s_code() -> None:
    caller = Caller.remote()
    unborn = Unborn.remote()

    with pytest.raises(ActorDiedError) as died:
        await unborn
    with pytest.raises(TaskError) as plain:
        await caller.run.remote(_raise)
    with pytest.raises(TaskError) as said:
        await caller.run.options(timeout=9).remote(_raise)

    for told in (
        died.value.exit.constructor,
        plain.value.traceback_str,
        said.value.traceback_str,
    ):
        assert "ValueError: no" in told
        assert "actorlib/_worker" not in told


@in_process
async def test_log_when_it_can_never_be_placed_then_who_asks_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    huge = Target.options(num_gpus=2, name="huge").remote()

    with pytest.raises(ActorUnschedulableError):
        await huge

    assert caplog.records[-1].getMessage().count("Target 'huge'") == 1


@actorlib.remote
class Stream:
    async def items(self) -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0


@actorlib.remote
def wait_there(gate: Any, name: str) -> int:
    actorlib.get(gate.wait.remote(name))
    return os.getpid()


def _shown(gate: Any, stream: Any) -> list[str]:
    refs = [gate.wait.remote("a"), gate.wait.options(timeout=9).remote("b")]
    refs += gate.wait.options(num_returns=2).remote("parts")
    refs.append(wait_there.remote(gate, refs[0]))
    items = stream.items.remote()
    refs += [items, items.completed(), actorlib.put(3)]
    return [_told(ref) for ref in refs]


def _told(ref: object) -> str:
    """A repr without who is called back."""
    return re.sub(" cb=.*", ">", repr(ref))


def _pid_of(_: object) -> int:
    return os.getpid()


def _raise() -> None:
    raise ValueError("no")


def _found(name: str) -> str:
    return repr(actorlib.get_actor(name))
