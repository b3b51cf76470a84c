"""What a worker is told of its actor is read as it was said."""

from __future__ import annotations

from typing import cast

from actorlib._base.ids import ActorId
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.codec import FrameDecoder, encode
from actorlib._wire.messages import START

CONFIG = ActorConfig(
    actor_id=ActorId(b"a" * 16),
    class_name="Model",
    name="m1",
    prefix=b"p" * 8,
    is_async=True,
    limits={"io": 2},
    groups={"read": "io"},
    max_unread=7,
    grace=1.5,
    environment={"CUDA_VISIBLE_DEVICES": "0", "OLD": None},
    path=("/a", "/b"),
    threads=4,
    features={"frameworks": {"torch.cuda": 0.25, "tensorflow": 9000}},
    runtime_env={"env_vars": {"A": "1"}},
    resources={"GPU": 0.5},
    accelerator_ids={"GPU": (0,)},
    placement_group=b"pickled",
    captures_children=True,
)


def test_config_when_it_crosses_a_pipe_then_the_same_is_read() -> None:
    sent = cast("bytes", encode((START, vars(CONFIG), b"")))

    (frame,) = FrameDecoder().feed(sent)

    assert ActorConfig(**frame[1]) == CONFIG
