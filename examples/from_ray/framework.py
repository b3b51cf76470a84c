"""A task that uses its GPU with a framework, which reads the mask."""

import os
import actorlib.blocking as ray

ray.init(num_gpus=2)

@ray.remote(num_gpus=1)
def gpu_task():
    # The document opens a session of TensorFlow here, which reads only this variable.
    return "a framework sees GPU {}".format(os.environ["CUDA_VISIBLE_DEVICES"])

print(ray.get(gpu_task.remote()))
