"""A task that leaves memory on its GPU: its process is not reused."""

import os
import actorlib.blocking as ray

ray.init(num_gpus=1)

# By default, ray does not reuse workers for GPU tasks to prevent
# GPU resource leakage.
@ray.remote(num_gpus=1)
def leak_gpus():
    # This task allocates memory on the GPU and then never release it.
    return os.getpid()

print(ray.get(leak_gpus.remote()) != ray.get(leak_gpus.remote()))
