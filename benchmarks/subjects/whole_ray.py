"""A whole program: start, one actor, one answer, a clean end."""

import ray


@ray.remote(num_cpus=0, num_gpus=0.01)
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


ray.init(num_gpus=8, include_dashboard=False, log_to_driver=False)
assert ray.get(Echo.remote().echo.remote(1)) == 1
ray.shutdown()
