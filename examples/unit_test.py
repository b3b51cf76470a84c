"""Unit tests of a program's actors, without processes: pytest finds and runs them."""

import asyncio
from typing import Any

import actorlib


@actorlib.remote
class Store:
    """Where weights are kept."""

    def load(self, name: str) -> str:
        """The weights of that name."""
        if name != "known":
            raise KeyError(name)
        return name.upper()


@actorlib.remote(num_gpus=1)
class Model:
    """Your own code: it has a device, and asks another actor."""

    def __init__(self, store: actorlib.ActorHandle[Any]) -> None:
        self._store = store

    def predict(self, name: str) -> str:
        """What is asked for, from where it is kept."""
        (device,) = actorlib.get_gpu_ids()
        weights = actorlib.get(self._store.load.remote(name))
        return f"{weights} on GPU {device}"


def test_model_gives_what_the_store_has() -> None:
    """In a test, a breakpoint() in a method stops in this very process."""

    async def main() -> None:
        async with actorlib.init(engine="inline", num_gpus=1):
            model = Model.remote(Store.remote())
            assert await model.predict.remote("known") == "KNOWN on GPU 0"
            try:
                await model.predict.remote("other")
            except KeyError as error:
                assert error.args == ("other",)  # noqa: PT017  # runs without pytest
            else:
                raise AssertionError("it was found")

    asyncio.run(main())


if __name__ == "__main__":
    test_model_gives_what_the_store_has()
    print("passed")
