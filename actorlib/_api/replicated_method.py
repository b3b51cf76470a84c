"""The methods of replicas: ``replicas.method.remote(...)`` and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._api.replica_routing import digest_of

if TYPE_CHECKING:
    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.replica_autoscaler import Autoscaler
    from actorlib._api.replica_router import ReplicaRouter
    from actorlib._api.replica_set import Replica
    from actorlib._options.call_options import CallKeywords
    from actorlib._options.interface import Interface


class ReplicatedMethod:
    """A method of replicas; ``.remote(...)`` calls it on one of them.

    Args:
        owner: The Replicas, which it keeps alive.
        router: Chooses the replica.
        autoscaler: Changes the number of replicas; None if it is fixed.
        interface: The interface of the class.
        name: The name of the method.
        options: The options of its calls.
        digest: The digest of the key of its calls; None without a key.
    """

    __slots__ = (
        "_autoscaler",
        "_digest",
        "_interface",
        "_name",
        "_options",
        "_owner",
        "_router",
    )

    def __init__(
        self,
        owner: object,
        router: ReplicaRouter,
        autoscaler: Autoscaler | None,
        interface: Interface,
        name: str,
        options: CallKeywords | None = None,
        digest: bytes | None = None,
    ) -> None:
        self._owner = owner
        self._router = router
        self._autoscaler = autoscaler
        self._interface = interface
        self._name = name
        self._options: CallKeywords = options or {}
        self._digest = digest

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the method of one of the replicas; see ActorMethod.

        Returns:
            A ref of the result, or a stream.

        Raises:
            ActorUnavailableError: There is no replica; the message has the reason.
            OverloadedError: Each replica has ``max_pending`` calls without an answer,
                or the replica of the key has.
            TypeError: The arguments do not fit the method, or cannot be sent.
        """
        router = self._router
        if self._digest is None:
            replica = router.route()
            method = replica.methods.get(self._name)
            if method is None or self._options:
                method = self._method_of(replica)
        else:
            replica = router.route_key(self._digest)
            move = router.move_key(self._digest)
            method = self._plain_method_of(replica)._moving(move)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # only for replicas
        ref = method.remote(*args, **kwargs)
        replica.calls += 1
        if self._autoscaler is not None:
            self._autoscaler.watch()
        return ref

    def _method_of(self, replica: Replica) -> ActorMethod[..., Any]:
        method = self._plain_method_of(replica)._moving(self._router.move)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # only for replicas
        if not self._options:
            replica.methods[self._name] = method
        return method

    def _plain_method_of(self, replica: Replica) -> ActorMethod[..., Any]:
        method: ActorMethod[..., Any] = getattr(replica.handle, self._name)
        return method.options(**self._options) if self._options else method

    def options(self, /, **options: Any) -> ReplicatedMethod:
        """Returns the method with some options replaced; see ActorMethod.options.

        Args:
            **options: The options of the calls, by name. ``key`` sends all calls with
                one key to one replica; see Replicas.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: A value is out of range.
        """
        key = options.pop("key", None)
        digest = self._digest if key is None else digest_of(key)
        changes = self._options
        if options:
            changes = cast("CallKeywords", {**changes, **options})
            interface = self._interface
            interface.with_options(interface.methods[self._name], changes)
        return ReplicatedMethod(
            self._owner,
            self._router,
            self._autoscaler,
            self._interface,
            self._name,
            changes,
            digest,
        )

    def __call__(self, *_: object, **__: object) -> None:
        """Refuses: a remote call does not look like a local one."""
        raise TypeError(
            f"{self._name}() runs in another process: write .{self._name}.remote(...) "
            "and await it"
        )

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._owner!r}>"
