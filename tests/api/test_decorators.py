from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import cloudpickle
import pytest
from helpers.engine import FakeEngine

import actorlib
from actorlib import ActorHandle
from actorlib._api.decorators import interface_and_options
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin, set_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import class_of
from actorlib.exceptions import UnknownOptionError
from actorlib.types import ActorClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Base:
    limit = 5

    def inherited(self) -> str:
        return "base"


@actorlib.remote(num_gpus=0.5)
class Model(Base):
    """Says what it is."""

    names: ClassVar[list[str]] = ["a", "b"]

    class Config:
        depth = 3

    def __init__(self, size: int, *, name: str = "") -> None:
        self.size = size
        self.name = name

    def ping(self, times: int = 1) -> int:
        return self.size * times

    async def later(self) -> int:
        return self.size

    @classmethod
    def make(cls, size: int) -> Any:
        return cls(size)

    @staticmethod
    def double(number: int) -> int:
        return number * 2

    def limits(self) -> tuple[int, list[str], int]:
        return Model.limit, Model.names, Model.double(2)


class Plain:
    def __init__(self, size: int = 0) -> None:
        self.size = size


Decorated = actorlib.remote(Plain)


class Outer:
    @actorlib.remote
    class Inner:
        pass


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def running(engine: FakeEngine) -> Iterator[FakeEngine]:
    """The engine of this process."""
    set_engine(engine)
    yield engine
    set_engine(None)


# Decorating.


def asked(cls: object) -> ActorOptions:
    """The options of an actor class."""
    return interface_and_options(cast("Any", cls))[1]


def test_remote_when_given_a_class_in_any_way_then_an_actor_class_of_it() -> None:
    decorate = actorlib.remote(num_cpus=2)
    several = [decorate(Plain), decorate(Base)]

    assert isinstance(Decorated, ActorClass)
    assert asked(Decorated) == ActorOptions()
    assert asked(Model) == ActorOptions(num_gpus=0.5)
    assert repr(several) == "[ActorClass(Plain), ActorClass(Base)]"
    assert asked(several[0]) == ActorOptions(num_cpus=2)
    assert Plain(3).size == 3  # it stays usable


@actorlib.remote
def function_too() -> None: ...


def shown(value: object) -> str:
    """As ``repr``, but the same in each process that collects these tests."""
    return repr(value).partition(" at 0x")[0]


@pytest.mark.parametrize(
    "given", [len, function_too, 5, None, "Model", Plain(), Model], ids=shown
)
def test_remote_when_given_no_class_then_type_error(given: Any) -> None:
    with pytest.raises(TypeError, match="class"):
        actorlib.remote(given)
    if not isinstance(given, str | Plain):
        with pytest.raises(TypeError, match="class"):
            actorlib.remote(num_cpus=1)(given)


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((), {}, "without brackets"),
        ((Plain,), {"num_cpus": 1}, "by name"),
        ((Plain, Base), {}, "by name"),
    ],
)
def test_remote_when_misused_then_type_error_says_how_to_write_it(
    args: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        actorlib.remote(*args, **options)


@pytest.mark.parametrize(
    "options",
    [{"num_gpu": 1}, {"num_return": 2}, {"name_": "a"}],
    ids=repr,
)
def test_remote_when_an_option_is_unknown_then_refused_before_any_class(
    options: dict[str, Any],
) -> None:
    (name,) = options

    with pytest.raises(UnknownOptionError, match=name):
        actorlib.remote(**options)


def test_options_when_chained_then_what_was_given_before_stays() -> None:
    made = Model.options(num_cpus=1).options(memory=7)

    assert asked(made) == ActorOptions(num_gpus=0.5, num_cpus=1, memory=7)
    assert asked(Model) == ActorOptions(num_gpus=0.5)


# Other actors, as wishes.


def handle(engine: FakeEngine, number: int) -> ActorHandle[Any]:
    interface, _ = interface_and_options(Model)
    return ActorHandle(HandlePin(engine, ActorId(bytes([number]) * 12), interface))


FIRST, SECOND = bytes([1]) * 12, bytes([2]) * 12


async def test_options_when_given_handles_then_their_ids_are_kept(
    engine: FakeEngine,
) -> None:
    first, second = handle(engine, 1), handle(engine, 2)

    made = Model.options(near=first, apart_from=[second])
    several = asked(Model.options(apart_from=(first, second)))
    alone = asked(Model.options(apart_from=first))

    assert (asked(made).near_to, asked(made).apart) == ((FIRST,), (SECOND,))
    assert (several.apart, alone.apart) == ((FIRST, SECOND), (FIRST,))
    assert asked(actorlib.remote(num_gpus=1, near=first)(Plain)).near_to == (FIRST,)
    assert asked(made.options(num_gpus=1)).near_to == (FIRST,)
    taken_back = made.options(num_gpus=1, near=None, apart_from=None)
    assert asked(taken_back) == ActorOptions(num_gpus=1)
    assert asked(pickle.loads(pickle.dumps(made))) == asked(made)
    for nobody in ([], ()):
        assert asked(Model.options(apart_from=nobody)).apart == ()


@pytest.mark.parametrize("name", ["near", "apart_from"])
@pytest.mark.parametrize(
    "given",
    ["Actor(Model, 01)", 1, b"1", Plain(), {"a": 1}, [FIRST], (FIRST,)],
    ids=shown,
)
def test_options_when_a_neighbour_is_no_handle_then_type_error_names_it(
    name: str, given: object
) -> None:
    with pytest.raises(TypeError, match=f"{name} takes the handle of an actor") as told:
        Model.options(**{name: given})  # type: ignore[typeddict-item]

    assert repr(given) in str(told.value)


async def test_options_when_near_is_given_several_or_a_method_then_type_error(
    engine: FakeEngine,
) -> None:
    first, second = handle(engine, 1), handle(engine, 2)
    for given in ([first], (first, second), first.ping):
        with pytest.raises(TypeError, match="near takes the handle of an actor"):
            Model.options(near=given)


# Not a class any more, and still like one.


def test_actor_class_when_attributes_are_read_then_those_of_the_class() -> None:
    made = Model.make(3)

    assert (Model.limit, Model.names, Model.Config.depth) == (5, ["a", "b"], 3)
    assert Model.double(21) == 42
    assert not isinstance(made, ActorHandle)
    assert (made.ping(2), made.limits()) == (6, (5, ["a", "b"], 4))
    with pytest.raises(AttributeError, match="pnig"):
        Model.pnig  # noqa: B018  # reading it is the test
    assert (Model.__name__, Model.__qualname__) == ("Model", "Model")
    assert (Model.__module__, Model.__doc__) == (__name__, "Says what it is.")
    assert repr(Model) == "ActorClass(Model)"


def test_actor_class_when_optional_in_an_annotation_then_it_stands_there() -> None:
    made: Any = Model

    assert get_args(made | None) == (Model, type(None))
    assert get_args(None | made) == (type(None), Model)
    assert get_args(made | int | str) == (Model, int, str)


def test_actor_class_when_listed_then_its_methods_and_nothing_of_the_runtime() -> None:
    own = ["double", "inherited", "later", "limits", "make", "ping"]
    public = [name for name in dir(Model) if not name.startswith("_")]

    assert public == sorted([*own, "options", "remote", "spawn"])
    assert {"_options", "_origin", "_interface"}.isdisjoint(dir(Model))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_actor_class_when_copied_then_it_is_the_same(
    copied: Callable[[object], object],
) -> None:
    assert copied(Model) is Model


# Creating.


async def test_create_when_made_then_the_engine_knows_all_it_takes(
    running: FakeEngine,
) -> None:
    handle = Model.remote(1)
    Model.options(num_cpus=1).remote(3, name="m")

    first, second = running.created
    assert repr(handle) == "Actor(Model, 01)"
    assert (second.args, second.kwargs) == ((3,), {"name": "m"})
    assert second.options == ActorOptions(num_gpus=0.5, num_cpus=1)
    assert second.interface.class_name == "Model"
    assert class_of(second.source) is class_of(Model)
    assert first.source is second.source


# Travelling.


def test_pickle_when_a_module_has_it_then_it_is_the_very_same() -> None:
    assert pickle.loads(pickle.dumps(Model)) is Model
    assert pickle.loads(pickle.dumps(Outer.Inner)) is Outer.Inner
    assert b"inherited" not in cloudpickle.dumps(Model)
    loaded = pickle.loads(pickle.dumps(Decorated))  # which has another name there
    assert isinstance(loaded, ActorClass)
    assert class_of(loaded) is Plain


def test_pickle_when_options_were_given_then_they_travel() -> None:
    loaded = pickle.loads(pickle.dumps(Model.options(num_cpus=3)))

    assert asked(loaded) == ActorOptions(num_gpus=0.5, num_cpus=3)
    assert class_of(loaded) is class_of(Model)


def test_pickle_when_the_class_is_local_then_it_travels_by_value() -> None:
    @actorlib.remote(num_cpus=1)
    class Local:
        depth = 3

        def own(self) -> int:
            return Local.depth

    loaded = cloudpickle.loads(cloudpickle.dumps(Local))

    assert repr(loaded) == "ActorClass(Local)"
    assert asked(loaded) == ActorOptions(num_cpus=1)
    assert class_of(loaded)().own() == 3
