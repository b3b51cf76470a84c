"""Data-parallel training: two ranks of PyTorch on the CPU, each with its own data."""

import asyncio

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import actorlib

RANKS = 2


@actorlib.remote(num_cpus=1, torch=True)
def train(x: torch.Tensor, y: torch.Tensor) -> tuple[float, float, torch.Tensor]:
    """Trains on the data of one rank; returns first loss, last loss, and weights."""
    # It reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. On GPUs use "nccl" and
    # device 0, the only one that a rank with num_gpus=1 sees.
    dist.init_process_group("gloo")
    try:
        torch.manual_seed(dist.get_rank())  # DDP copies those of rank 0
        model = DistributedDataParallel(nn.Linear(3, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses: list[float] = []
        for _ in range(100):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()  # averages the gradients over all ranks
            optimizer.step()
            losses.append(loss.item())
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        return losses[0], losses[-1], weights
    finally:
        dist.destroy_process_group()


async def main() -> None:
    """Trains two ranks, and shows that both have the same model."""
    torch.manual_seed(0)
    x = torch.randn(RANKS, 64, 3)
    y = x @ torch.tensor([[1.0], [2.0], [3.0]]) + 4

    async with actorlib.init(num_cpus=RANKS, preload=["torch.distributed"]):
        group = actorlib.placement_group([{"CPU": 1}] * RANKS, name="trainers")
        results = await group.map(train, x, y)  # x[0] and y[0] are rank 0's

        for rank, (first, last, _) in enumerate(results):
            print(f"rank {rank}: the loss fell below 1 %: {last < first / 100}")
        weights = [result[2] for result in results]
        print("same weights:", torch.equal(weights[0], weights[1]))
        print("the model:", [round(w, 1) for w in weights[0].tolist()])


if __name__ == "__main__":
    asyncio.run(main())
