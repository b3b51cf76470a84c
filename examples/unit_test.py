"""Unit tests of actors without processes, for pytest."""

import asyncio
from typing import Any

import actorlib


@actorlib.remote
class Store:
    """Stores weights."""

    def load(self, name: str) -> str:
        """Returns the weights of that name."""
        if name != "known":
            raise KeyError(name)
        return name.upper()


@actorlib.remote(num_gpus=1)
class Model:
    """Uses a device and another actor."""

    def __init__(self, store: actorlib.ActorHandle[Any]) -> None:
        self._store = store

    def predict(self, name: str) -> str:
        """Returns the weights from the store, and the device."""
        (device,) = actorlib.get_gpu_ids()
        weights = actorlib.get(self._store.load.remote(name))
        return f"{weights} on GPU {device}"


def test_model_returns_weights_of_the_store() -> None:
    """Checks a value and an error. A breakpoint() in a method stops in this process."""

    async def main() -> None:
        async with actorlib.init(engine="inline", num_gpus=1):
            model = Model.remote(Store.remote())
            assert await model.predict.remote("known") == "KNOWN on GPU 0"
            try:
                await model.predict.remote("other")
            except KeyError as error:
                assert error.args == ("other",)  # noqa: PT017  # runs without pytest
            else:
                raise AssertionError("no KeyError was raised")

    asyncio.run(main())


if __name__ == "__main__":
    test_model_returns_weights_of_the_store()
    print("passed")
