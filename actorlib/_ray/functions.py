"""Remote functions, as Ray's tasks."""

from __future__ import annotations

import itertools
import os
import weakref
from typing import TYPE_CHECKING, Any

from actorlib._calling import running
from actorlib._ray.crossing import Again, House, Sent, raised
from actorlib._ray.library import ray
from actorlib._ray.options import function_options
from actorlib._ray.sending import packed, unsendable
from actorlib._ray.tasks import Force
from actorlib._telling import enter_variables
from actorlib._wire.blame import Sources
from actorlib._wire.payload import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._function_options import FunctionSpec
    from actorlib._ray.home import Home
    from actorlib._ref import ObjectRef

_numbers = itertools.count(1)


class Functions:
    """The functions that this process calls.

    Args:
        home: Where its refs are filled.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._sources = Sources()
        self._runs: weakref.WeakKeyDictionary[FunctionSpec, Any] = (
            weakref.WeakKeyDictionary()
        )

    def run(
        self,
        house: House,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine.

        Args:
            house: What holds for the whole runtime.
            spec: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
        """
        label = spec.options.name or spec.label
        sent, given = packed(label, args, kwargs, None, spec.options.retried)
        call = self._runs.get(spec)
        if call is None:
            call = self._runs[spec] = self._made(spec, label)
        source = self._sources.dumped(label, spec.source)
        try:
            begin = self._home.arrivals.function
            ray_ref = call.remote(begin, house, source, sent, *given)
        except Exception as error:
            raise unsendable(label, sent, error) from error
        return Force(self._home, ray_ref, label).ref()

    def _made(self, spec: FunctionSpec, label: str) -> Any:
        options = spec.options
        calls = options.max_calls
        decorate: Any = ray.remote
        if calls is not None:
            decorate = ray.remote(max_calls=calls)
        keywords = function_options(options)
        return decorate(run_function).options(
            name=label, retry_exceptions=[Again], **keywords
        )


def run_function(
    begin: Callable[[House], None],
    house: House,
    source: bytes,
    sent: Sent,
    *values: Any,
) -> Any:
    """Calls the user's function in a worker of Ray's.

    Args:
        begin: Makes the process one of the runtime's.
        house: What holds for the whole runtime.
        source: The function, pickled.
        sent: Its arguments.
        *values: The values of the refs among them.
    """
    begin(house)
    args, kwargs = sent.filled(values)
    token = running.set((next(_numbers), sent.name, sent.told))
    try:
        if sent.told is not None:
            enter_variables(sent.told)
        found = decode(source)
        return getattr(found, "__wrapped__", found)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  # the user's code
        where = f"{sent.name} (pid={os.getpid()})"
        raise raised(error, where, sent.retried) from None
    finally:
        running.reset(token)
