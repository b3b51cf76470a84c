"""A task for one model of GPU."""

import actorlib.blocking as ray
from actorlib.blocking.util.accelerators import NVIDIA_TESLA_V100

@ray.remote(num_gpus=1, accelerator_type=NVIDIA_TESLA_V100)
def train(data):
    return "This function was run on a node with a Tesla V100 GPU"

print(ray.get(train.remote(1)))
