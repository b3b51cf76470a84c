"""Three actors on halves of two GPUs, and one that waits for a whole GPU: start here."""

import asyncio, os, actorlib

@actorlib.remote(num_gpus=0.5)
class Model:
    def __init__(self, name: str): self.name = name
    def ping(self): return self.name, actorlib.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()
    async def later(self, x): await asyncio.sleep(0.1); return x * 2

async def main():
    async with actorlib.init(num_gpus=2) as runtime:
        models = [Model.remote(f"m{i}") for i in range(3)]              # returns at once
        print(await asyncio.gather(*(m.ping.remote() for m in models))) # devices [0] [0] [1]: one device fills before the next
        print(await models[0].later.remote(21))
        big = Model.options(num_gpus=1).remote("big")                   # waits: no device is entirely free
        await actorlib.kill(models[2]); print(await big.ping.remote())  # placed on device 1

asyncio.run(main())
