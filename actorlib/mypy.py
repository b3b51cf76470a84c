"""A plugin for mypy: ``plugins = ["actorlib.mypy"]`` in its configuration.

With it, mypy knows more than types alone can express:

* ``@actorlib.remote`` on a class leaves the class usable in annotations, and gives it
  ``remote``, ``options`` and ``spawn`` with the arguments of its constructor;
* ``handle.method.remote(...)`` is checked against the method, for every handle whose
  class is known: an unknown method and wrong arguments are errors, and the result has
  its type. No ``@actorlib.method``, no ``typed()`` and no ``spawn`` is needed for that;
* a call takes a ref in the place of each value.

Programs do not load it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mypy.plugin import Plugin
from mypy.plugins.common import add_attribute_to_class
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    Parameters,
    Type,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy.plugin import AttributeContext, ClassDefContext, MethodSigContext
    from mypy.types import FunctionLike

_METHOD: Final = "actorlib._api.actor_handle.ActorMethod"
_UNTYPED: Final = "actorlib._api.actor_handle.UntypedMethod"
_HANDLES: Final = {
    "actorlib._api.actor_handle.ActorHandle",
    "actorlib._api.replicas.Replicas",
}
_REF: Final = "actorlib._futures.object_ref.ObjectRef"
_CALLS: Final = {
    "actorlib._api.actor_handle.ActorMethod.remote",
    "actorlib._api.actor_handle.UntypedMethod.remote",
    "actorlib._api.decorators.ActorClass.remote",
    "actorlib._api.decorators.ActorClass.spawn",
    "actorlib._api.decorators._TypedClass.remote",
    "actorlib._api.decorators._TypedClass.spawn",
    "actorlib._api.remote_function.RemoteFunction.remote",
    "actorlib._api.remote_function.GeneratorFunction.remote",
    "actorlib._api.remote_function.UntypedFunction.remote",
    "actorlib._api.typed_methods.BoundGenerator.remote",
    "actorlib._api.typed_methods.BoundMethod.remote",
}
_GENERATOR: Final = "actorlib._api.typed_methods.BoundGenerator"
_OURS: Final = "actorlib."
_CLASS: Final = "actorlib._api.decorators.ActorClass"
_DECORATORS: Final = {
    "actorlib.remote",
    "actorlib._api.decorators.remote",
    "actorlib.blocking.remote",
    "actorlib.blocking._verbs.remote",
}
_OPERATIONS: Final = {"remote", "options", "spawn"}
_MARK: Final = "actorlib"
_AWAITED: Final = {"typing.Coroutine", "typing.Awaitable"}
_ITERATED: Final = {
    "typing.Iterator",
    "typing.Generator",
    "typing.AsyncIterator",
    "typing.AsyncGenerator",
}


class ActorlibPlugin(Plugin):
    """Adds the types of actor classes and of their handles; see the module."""

    def get_class_decorator_hook_2(
        self, fullname: str
    ) -> Callable[[ClassDefContext], bool] | None:
        """Adds the operations of an actor class to a class under the decorator."""
        return _decorated if fullname in _DECORATORS else None

    def get_class_attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        """Sets the types of these operations."""
        owner, _, name = fullname.rpartition(".")
        symbol = self.lookup_fully_qualified(owner) if name in _OPERATIONS else None
        metadata: dict[str, Any] = getattr(symbol and symbol.node, "metadata", {})
        return partial(self._operation, name) if _MARK in metadata else None

    def get_attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        """Sets the types of the methods of a handle."""
        owner, _, name = fullname.rpartition(".")
        return partial(self._method, name) if owner in _HANDLES else None

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Makes calls accept refs in the place of values."""
        return self._call if fullname in _CALLS else None

    def _call(self, context: MethodSigContext) -> CallableType:
        return self._with_refs(context.default_signature)

    def _with_refs(self, function: CallableType) -> CallableType:
        copy: Any = function  # whose method is typed in part
        changed: CallableType = copy.copy_modified(
            arg_types=[
                kind
                if isinstance(get_proper_type(kind), AnyType)
                else UnionType.make_union([kind, self._of(_REF, kind)])
                for kind in function.arg_types
            ]
        )
        return changed

    def _operation(self, name: str, context: AttributeContext) -> Type:
        """Returns the type of ``Model.remote``: that of ``ActorClass[..., Model]``."""
        cls = context.type
        if not isinstance(cls, CallableType) or not cls.is_type_obj():
            return context.default_attr_type
        actor_class = self._of(_CLASS, _parameters(cls), cls.ret_type)
        operation = get_proper_type(_member(context, actor_class, name))
        if isinstance(operation, CallableType) and name != "options":
            return self._with_refs(operation)
        return operation

    def _method(self, name: str, context: AttributeContext) -> Type:
        """Returns the type of ``handle.name``, from the class of the actor."""
        handle = context.type
        cls = handle.args[0] if isinstance(handle, Instance) and handle.args else None
        actor = get_proper_type(cls)
        if not isinstance(handle, Instance) or not isinstance(actor, Instance):
            return context.default_attr_type  # its class is unknown
        is_own = handle.type.has_readable_member(name)
        if is_own and not actor.type.has_readable_member(name):
            return context.default_attr_type
        if name.startswith("__"):  # Ray's, which every actor has
            return context.default_attr_type
        member = get_proper_type(_member(context, actor, name))
        if isinstance(member, CallableType):
            return self._remote_method(member)
        is_ours = isinstance(member, Instance) and (
            member.type.fullname.startswith(_OURS)  # it is under @method
        )
        if not is_ours and not isinstance(member, AnyType):  # which mypy reports
            text = f'"{actor.type.name}" has no method "{name}"'
            context.api.fail(text, context.context)
            return AnyType(TypeOfAny.from_error)
        return member

    def _remote_method(self, function: CallableType) -> Instance:
        """Returns the type of a bound method of a class that is called remotely."""
        result = get_proper_type(function.ret_type)
        kind = result.type.fullname if isinstance(result, Instance) else ""
        parameters = _parameters(function)
        if isinstance(result, Instance) and kind in _ITERATED:
            return self._of(_GENERATOR, parameters, result.args[0], result)
        if isinstance(result, Instance) and kind in _AWAITED:
            return self._of(_METHOD, parameters, result.args[-1])
        if isinstance(result, AnyType):
            return self._of(_UNTYPED, parameters)
        return self._of(_METHOD, parameters, function.ret_type)

    def _of(self, fullname: str, *arguments: Type) -> Instance:
        """Returns a generic class of this package with its arguments."""
        symbol = self.lookup_fully_qualified(fullname)
        info: Any = None if symbol is None else symbol.node
        return Instance(info, list(arguments))


def plugin(version: str) -> type[Plugin]:
    """Returns the plugin; called by mypy."""
    del version
    return ActorlibPlugin


def _decorated(context: ClassDefContext) -> bool:
    info = context.cls.info
    info.metadata[_MARK] = {}
    for name in _OPERATIONS - info.names.keys():
        anything = AnyType(TypeOfAny.special_form)
        add_attribute_to_class(
            context.api, context.cls, name, anything, is_classvar=True
        )
    return True


def _parameters(function: CallableType) -> Parameters:
    return Parameters(
        function.arg_types,
        function.arg_kinds,
        function.arg_names,
        variables=function.variables,
    )


def _member(context: AttributeContext, owner: Instance, name: str) -> Type:
    """Returns the type of an attribute; reports one that is missing."""
    checker: Any = context.api
    member: Type = checker.expr_checker.analyze_external_member_access(
        name, owner, context.context
    )
    return member
