from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import cloudpickle
import pytest
from helpers.engine import FakeEngine

import actorlib
from actorlib import ActorClass, ActorHandle
from actorlib._api.decorators import interface_and_options
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin, set_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import class_of
from actorlib.exceptions import UnknownOptionError

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


def test_remote_when_bare_then_it_asks_for_nothing() -> None:
    @actorlib.remote
    class Bare:
        pass

    assert isinstance(Bare, ActorClass)
    assert Bare._options == ActorOptions()


def test_remote_when_given_options_then_they_are_kept() -> None:
    assert Model._options == ActorOptions(num_gpus=0.5)


def test_remote_when_called_as_a_function_then_the_class_stays_usable() -> None:
    assert isinstance(Decorated, ActorClass)
    assert Plain(3).size == 3


def test_remote_when_called_with_options_and_then_the_class_then_as_decorated() -> None:
    made = actorlib.remote(num_cpus=2)(Plain)

    assert isinstance(made, ActorClass)
    assert made._options == ActorOptions(num_cpus=2)


def test_remote_when_one_decorator_is_used_twice_then_two_actor_classes() -> None:
    decorate = actorlib.remote(num_cpus=2)

    assert repr([decorate(Plain), decorate(Base)]) == (
        "[ActorClass(Plain), ActorClass(Base)]"
    )


def test_remote_when_empty_brackets_then_type_error_says_how_to_write_it() -> None:
    with pytest.raises(TypeError, match="without brackets"):
        actorlib.remote()


@actorlib.remote
def function_too() -> None: ...


def shown(value: object) -> str:
    """As ``repr``, but the same in each process that collects these tests."""
    return repr(value).partition(" at 0x")[0]


@pytest.mark.parametrize(
    "given", [len, function_too, 5, None, "Model", Plain(), Model], ids=shown
)
def test_remote_when_given_no_class_then_type_error(given: object) -> None:
    with pytest.raises(TypeError, match="class"):
        actorlib.remote(given)


@pytest.mark.parametrize("given", [len, function_too, 5, None, Model], ids=shown)
def test_remote_when_options_are_followed_by_no_class_then_type_error(
    given: Any,
) -> None:
    with pytest.raises(TypeError, match="class"):
        actorlib.remote(num_cpus=1)(given)


def test_remote_when_given_a_class_and_options_then_type_error() -> None:
    with pytest.raises(TypeError, match="by name"):
        actorlib.remote(Plain, num_cpus=1)


def test_remote_when_given_two_classes_then_type_error() -> None:
    with pytest.raises(TypeError, match="by name"):
        actorlib.remote(Plain, Base)


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


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": -1},
        {"num_gpus": -0.5},
        {"memory": -1},
        {"resources": {"lane": -1}},
        {"resources": {"GPU": 1}},
    ],
    ids=repr,
)
def test_options_when_a_value_is_wrong_then_value_error(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Model.options(**options)


def test_options_when_a_quantity_is_a_text_then_type_error() -> None:
    with pytest.raises(TypeError, match="num_cpus"):
        Model.options(num_cpus="1")  # type: ignore[typeddict-item]


def test_options_when_a_name_is_unknown_then_value_error() -> None:
    with pytest.raises(ValueError, match="Did you mean num_cpus="):
        Model.options(num_cpu=1)  # type: ignore[call-arg]


def test_options_when_given_then_the_first_class_keeps_its_own() -> None:
    Model.options(num_gpus=1)

    assert Model._options == ActorOptions(num_gpus=0.5)


def test_options_when_chained_then_what_was_given_before_stays() -> None:
    made = Model.options(num_cpus=1).options(memory=7)

    assert made._options == ActorOptions(num_gpus=0.5, num_cpus=1, memory=7)


# Other actors, as wishes.


def handle(engine: FakeEngine, number: int) -> ActorHandle[Any]:
    interface, _ = interface_and_options(Model)
    return ActorHandle(HandlePin(engine, ActorId(bytes([number]) * 12), interface))


FIRST, SECOND = bytes([1]) * 12, bytes([2]) * 12


async def test_options_when_given_handles_then_ids_are_kept_and_no_handle(
    engine: FakeEngine,
) -> None:
    first, second = handle(engine, 1), handle(engine, 2)

    made = Model.options(near=first, apart_from=[second])
    several = Model.options(apart_from=(first, second))

    assert made._options.near_to == (FIRST,)
    assert made._options.apart == (SECOND,)
    assert several._options.apart == (FIRST, SECOND)
    assert Model.options(apart_from=first)._options.apart == (FIRST,)


async def test_remote_when_given_handles_then_as_by_options(engine: FakeEngine) -> None:
    first = handle(engine, 1)

    made = actorlib.remote(num_gpus=1, near=first)(Plain)

    assert made._options.near_to == (FIRST,)


async def test_options_when_chained_then_wishes_stay_until_they_are_taken_back(
    engine: FakeEngine,
) -> None:
    made = Model.options(near=handle(engine, 1)).options(num_gpus=1)

    assert made._options.near_to == (FIRST,)
    assert made.options(near=None)._options == ActorOptions(num_gpus=1)


@pytest.mark.parametrize("nobody", [[], (), None], ids=repr)
def test_options_when_apart_from_nobody_then_no_wish(nobody: Any) -> None:
    assert Model.options(apart_from=nobody)._options.apart == ()


@pytest.mark.parametrize("name", ["near", "apart_from"])
@pytest.mark.parametrize(
    "given",
    ["Actor(Model, 01)", 1, b"1", Model, Plain(), [1], {"a": 1}, object, [FIRST]],
    ids=shown,
)
def test_options_when_a_neighbour_is_no_handle_then_type_error_names_it(
    name: str, given: object
) -> None:
    with pytest.raises(TypeError, match=f"{name} takes the handle of an actor") as told:
        Model.options(**{name: given})  # type: ignore[typeddict-item]

    assert repr(given) in str(told.value)


@pytest.mark.parametrize("name", ["near", "apart_from"])
def test_options_when_a_neighbour_is_an_id_then_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} takes the handle of an actor"):
        Model.options(**{name: (FIRST,)})  # type: ignore[typeddict-item]


async def test_options_when_near_is_given_several_then_type_error(
    engine: FakeEngine,
) -> None:
    for several in ([handle(engine, 1)], (handle(engine, 1), handle(engine, 2))):
        with pytest.raises(TypeError, match="near takes the handle of an actor"):
            Model.options(near=several)


async def test_options_when_a_method_is_given_for_its_actor_then_type_error(
    engine: FakeEngine,
) -> None:
    with pytest.raises(TypeError, match="near takes the handle of an actor"):
        Model.options(near=handle(engine, 1).ping)


async def test_pickle_when_wishes_were_given_then_they_travel(
    engine: FakeEngine,
) -> None:
    made = Model.options(near=handle(engine, 1), device="0", placement="spread")

    assert pickle.loads(pickle.dumps(made))._options == made._options


async def test_plan_of_when_options_were_given_then_the_face_and_those(
    engine: FakeEngine,
) -> None:
    made = Model.options(near=handle(engine, 1), accelerator_type="H100")

    interface, options = interface_and_options(made)
    assert interface.class_name == "Model"
    assert options == made._options


# Not a class any more, and still like one.


def test_actor_class_when_called_then_type_error_names_remote() -> None:
    with pytest.raises(TypeError, match=r"directly: write Model\.remote\("):
        Model(3)


def test_actor_class_when_inherited_from_then_type_error_says_what_to_decorate() -> (
    None
):
    with pytest.raises(TypeError, match="decorate the derived class"):

        class Derived(Model):  # type: ignore[valid-type, misc]
            pass


@pytest.mark.parametrize(
    ("name", "value"), [("limit", 5), ("names", ["a", "b"]), ("Config", None)]
)
def test_actor_class_when_a_class_attribute_is_read_then_it_is_that_of_the_class(
    name: str, value: object
) -> None:
    found = getattr(Model, name)

    assert found == value or found.depth == 3


def test_actor_class_when_a_static_method_is_called_then_it_runs_here() -> None:
    assert Model.double(21) == 42


def test_actor_class_when_a_factory_is_called_then_a_plain_instance() -> None:
    made = Model.make(3)

    assert not isinstance(made, ActorHandle)
    assert made.ping(2) == 6


def test_actor_class_when_a_method_names_it_then_it_finds_the_attributes_of_all_bases() -> (  # noqa: E501  # one behaviour, one name
    None
):
    assert Model.make(3).limits() == (5, ["a", "b"], 4)


def test_actor_class_when_an_attribute_is_missing_then_attribute_error() -> None:
    with pytest.raises(AttributeError, match="pnig"):
        Model.pnig  # noqa: B018  # reading it is the test


def test_actor_class_when_optional_in_an_annotation_then_it_stands_there() -> None:
    made: Any = Model

    assert get_args(made | None) == (Model, type(None))
    assert get_args(None | made) == (type(None), Model)
    assert get_args(made | int | str) == (Model, int, str)


def test_actor_class_when_listed_then_its_methods_and_its_own() -> None:
    public = [name for name in dir(Model) if not name.startswith("_")]

    assert public == [
        "double",
        "inherited",
        "later",
        "limits",
        "make",
        "options",
        "ping",
        "remote",
        "spawn",
    ]


def test_actor_class_when_listed_then_nothing_of_the_runtime() -> None:
    assert {"_options", "_origin", "_interface"}.isdisjoint(dir(Model))


def test_actor_class_when_shown_then_its_name() -> None:
    assert repr(Model) == "ActorClass(Model)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__name__", "Model"),
        ("__qualname__", "Model"),
        ("__module__", __name__),
        ("__doc__", "Says what it is."),
    ],
)
def test_actor_class_when_asked_who_it_is_then_as_the_class(
    name: str, value: str
) -> None:
    assert getattr(Model, name) == value


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_actor_class_when_copied_then_it_is_the_same(
    copied: Callable[[object], object],
) -> None:
    assert copied(Model) is Model


# Creating.


async def test_create_when_no_runtime_is_there_then_runtime_error_says_what_to_write() -> (  # noqa: E501  # one behaviour, one name
    None
):
    with pytest.raises(RuntimeError, match=r"async with actorlib\.init\(\)"):
        Model.remote(3)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2), {}), ((1,), {"nmae": "a"})]
)
async def test_create_when_arguments_do_not_fit_then_type_error_and_nothing_is_made(
    running: FakeEngine, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=r"^Model\(\)"):
        Model.remote(*args, **kwargs)

    assert running.created == []


async def test_create_when_made_then_a_handle_of_the_engines_id(
    running: FakeEngine,
) -> None:
    handle = Model.remote(3, name="m")

    assert repr(handle) == "Actor(Model, 01)"
    assert len(running.created) == 1


async def test_create_when_made_then_the_engine_knows_all_it_takes(
    running: FakeEngine,
) -> None:
    Model.options(num_cpus=1).remote(3, name="m")

    (spec,) = running.created
    assert (spec.args, spec.kwargs) == ((3,), {"name": "m"})
    assert spec.options == ActorOptions(num_gpus=0.5, num_cpus=1)
    assert spec.interface.class_name == "Model"
    assert class_of(spec.source) is class_of(Model)


async def test_create_when_options_differ_then_the_source_is_the_same(
    running: FakeEngine,
) -> None:
    Model.remote(1)
    Model.options(num_cpus=1).remote(2)

    first, second = running.created
    assert first.source is second.source


# Travelling.


def test_pickle_when_a_module_has_it_then_it_is_the_very_same() -> None:
    assert pickle.loads(pickle.dumps(Model)) is Model


def test_pickle_when_a_module_has_it_then_nothing_of_the_class_is_in_the_bytes() -> (
    None
):
    assert b"inherited" not in cloudpickle.dumps(Model)


def test_pickle_when_it_is_inside_another_class_then_it_is_the_very_same() -> None:
    assert pickle.loads(pickle.dumps(Outer.Inner)) is Outer.Inner


def test_pickle_when_the_module_has_it_by_another_name_then_it_makes_the_same_class() -> (  # noqa: E501  # one behaviour, one name
    None
):
    loaded = pickle.loads(pickle.dumps(Decorated))

    assert isinstance(loaded, ActorClass)
    assert class_of(loaded) is Plain


def test_pickle_when_options_were_given_then_they_travel() -> None:
    loaded = pickle.loads(pickle.dumps(Model.options(num_cpus=3)))

    assert loaded._options == ActorOptions(num_gpus=0.5, num_cpus=3)
    assert class_of(loaded) is class_of(Model)


def test_pickle_when_options_were_given_then_the_origin_is_the_very_same() -> None:
    loaded = pickle.loads(pickle.dumps(Model.options(num_cpus=3)))

    assert loaded._origin is Model


def test_pickle_when_the_class_is_local_then_it_travels_by_value() -> None:
    @actorlib.remote(num_cpus=1)
    class Local:
        def ping(self) -> str:
            return "pong"

    loaded = cloudpickle.loads(cloudpickle.dumps(Local))

    assert repr(loaded) == "ActorClass(Local)"
    assert loaded._options == ActorOptions(num_cpus=1)
    assert class_of(loaded)().ping() == "pong"


def test_pickle_when_a_local_class_names_itself_then_it_can_be_loaded() -> None:
    @actorlib.remote
    class Local:
        depth = 3

        def own(self) -> int:
            return Local.depth

    loaded = cloudpickle.loads(cloudpickle.dumps(Local))

    assert class_of(loaded)().own() == 3


async def test_class_of_when_the_class_itself_was_pickled_then_it_is_that() -> None:
    assert class_of(Plain) is Plain
