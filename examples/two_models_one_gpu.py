"""Two models on one GPU. A third waits for its share; a fourth is refused."""

import os

import actorlib


@actorlib.remote(num_gpus=0.6)
class Encoder:
    """Holds 0.6 of a GPU."""

    def encode(self, text: str) -> list[int]:
        """Converts a text to numbers."""
        return [ord(letter) for letter in text]

    def visible(self) -> str:
        """Returns the mask that frameworks in this process read."""
        return os.environ["CUDA_VISIBLE_DEVICES"]


@actorlib.remote(num_gpus=0.4)
class Decoder:
    """Holds 0.4 of a GPU."""

    def decode(self, numbers: list[int]) -> str:
        """Converts numbers to a text, in reverse order."""
        return "".join(map(chr, reversed(numbers)))

    def visible(self) -> str:
        """Returns the mask that frameworks in this process read."""
        return os.environ["CUDA_VISIBLE_DEVICES"]


async def main() -> None:
    """Fills one device with two actors, then requests more."""
    async with actorlib.init(num_gpus=1) as runtime:
        encoder, decoder = Encoder.remote(), Decoder.remote()
        numbers = encoder.encode.remote("stressed")  # not awaited: passed on as a ref
        print(await decoder.decode.remote(numbers))
        print(await encoder.visible.remote(), await decoder.visible.remote())

        third = Decoder.remote()  # waits: the device is full
        print(runtime.explain(third))
        await actorlib.kill(encoder)
        print(await third.decode.remote([105, 104]))

        try:
            await Encoder.options(num_gpus=2).remote()  # refused at once
        except actorlib.exceptions.ActorUnschedulableError as error:
            print(error)


actorlib.run(main())
