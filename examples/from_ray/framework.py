"""A task that hands its GPU to a framework, which looks at the mask."""

import os
import actorlib.blocking as ray

ray.init(num_gpus=2)

@ray.remote(num_gpus=1)
def gpu_task():
    # Where the document opens a session of TensorFlow: this is all that it looks at.
    return "a framework sees GPU {}".format(os.environ["CUDA_VISIBLE_DEVICES"])

print(ray.get(gpu_task.remote()))
