"""GPUs in functions and actors, from older versions of Ray's documents."""

import os
import actorlib.blocking as ray

ray.init(num_gpus=4)

@ray.remote(num_gpus=1)
def gpu_method():
    return "This function is allowed to use GPUs {}.".format(ray.get_gpu_ids())

print(ray.get(gpu_method.remote()))

@ray.remote(num_gpus=1)
def gpu_method():
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, ray.get_gpu_ids()))
    # The document opens a session of TensorFlow here.
    return os.environ["CUDA_VISIBLE_DEVICES"]

print(ray.get(gpu_method.remote()))

@ray.remote(num_gpus=1)
class GPUActor(object):
    def __init__(self):
        return "This actor is allowed to use GPUs {}.".format(ray.get_gpu_ids())

# Python refuses a constructor that returns a value, as in Ray.
try:
    ray.get(GPUActor.remote().__ray_ready__.remote())
except ray.exceptions.RayActorError as error:
    print(error.__cause__)

@ray.remote(num_gpus=1)
class GPUActor(object):
    def __init__(self):
        self.gpu_ids = ray.get_gpu_ids()
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self.gpu_ids))
        # The document opens a session of TensorFlow here.
        self.sess = os.environ["CUDA_VISIBLE_DEVICES"]

    def seen(self):
        return self.gpu_ids, self.sess

print(ray.get(GPUActor.remote().seen.remote()))

# A request for more than the machine has is refused, as in the document.
try:
    ray.get(GPUActor.options(num_gpus=5).remote().seen.remote())
except ray.exceptions.ActorUnschedulableError as error:
    print(error)
