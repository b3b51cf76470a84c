"""A placement group: three actors get their devices together, or not at all."""

import asyncio

import actorlib


@actorlib.remote
class Worker:
    """Computes one part."""

    def where(self) -> list[int | str]:
        """Returns the ids of its GPUs."""
        return actorlib.get_gpu_ids()

    def step(self, numbers: list[int]) -> int:
        """Returns the sum of squares of its numbers."""
        return sum(number * number for number in numbers)


async def main() -> None:
    """Reserves three bundles, uses them, and releases all of them."""
    async with actorlib.init(num_cpus=4, num_gpus=2) as runtime:
        group = await actorlib.placement_group(
            [{"GPU": 1, "CPU": 1}, {"GPU": 0.5}, {"GPU": 0.5}], strategy="PACK"
        ).ready()
        print("free outside:", runtime.available_resources()["GPU"], "GPU")

        sizes = [1, 0.5, 0.5]
        workers = [
            Worker.options(
                num_gpus=size, placement_group=group, placement_group_bundle_index=index
            ).remote()
            for index, size in enumerate(sizes)
        ]
        print(await asyncio.gather(*(worker.where.remote() for worker in workers)))
        parts = (w.step.remote([i, i + 1]) for i, w in enumerate(workers))
        print(sum(await asyncio.gather(*parts)))

        other = actorlib.placement_group([{"GPU": 1}, {"GPU": 1}])
        print("second group reserved:", await other.wait(0))
        await actorlib.remove_placement_group(group)
        print("second group reserved:", await other.wait())
        try:
            await workers[0].where.remote()
        except actorlib.exceptions.ActorPlacementGroupRemoved as error:
            print(type(error).__name__)


actorlib.run(main())
