"""The state of a runtime at one moment, for people and programs to look at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """What is known of one actor.

    Attributes:
        actor_id: Its id in hex.
        class_name: The name of its class.
        state: ``pending``, ``starting``, ``alive``, ``restarting``, ``draining`` or
            ``dead``.
        pid: Its process, or 0 while there is none.
        resources: What it asked for, by resource name; memory in bytes.
        devices: The ids of its devices with the part of each that it holds.
        mask: What its visibility variable says; None if it holds no device.
        restarts: How often it was started anew.
        pending_calls: How many of its calls have no answer yet.
        death: How it ended; empty while it lives.
    """

    actor_id: str
    class_name: str
    state: str
    pid: int
    resources: dict[str, float]
    devices: dict[str, float]
    mask: str | None
    restarts: int
    pending_calls: int
    death: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a runtime at one moment.

    Attributes:
        total: Everything it may grant, by resource name; memory in bytes.
        available: What nobody holds.
        waiting: Who waits in line, in order, and for what.
        actors: Every actor that lives or that somebody still holds.
    """

    total: dict[str, float]
    available: dict[str, float]
    waiting: tuple[str, ...]
    actors: tuple[ActorInfo, ...]
