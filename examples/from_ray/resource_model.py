"""Ray's resource model for GPUs: a task, shares, a model, ids."""

import os
import actorlib.blocking as ray
from actorlib.blocking.util.accelerators import NVIDIA_TESLA_V100

@ray.remote(num_gpus=1)
def gpu_task():
   pass

print(ray.get(gpu_task.remote()))

@ray.remote(num_gpus=0.5)
class HalfGpuActor():
   pass

# Shares a GPU

a1, a2 = HalfGpuActor.remote(), HalfGpuActor.remote()
ray.get([a1.__ray_ready__.remote(), a2.__ray_ready__.remote()])
print("on", len({tuple(actor.devices) for actor in ray.util.state.list_actors()}), "device")

@ray.remote(num_gpus=1, accelerator_type=NVIDIA_TESLA_V100)

def gpu_task():
   pass

print(ray.get(gpu_task.remote()))

@ray.remote(num_gpus=1)
def gpu_task():
   print(ray.get_gpu_ids())
   print(os.environ["CUDA_VISIBLE_DEVICES"])
   pass

ray.get(gpu_task.remote())
