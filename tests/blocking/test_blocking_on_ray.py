"""A script of the blocking API on a cluster of its own: the same verbs, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest
from helpers.on_ray import NEEDS_RAY

pytestmark = [pytest.mark.process, pytest.mark.ray, pytest.mark.slow, NEEDS_RAY]

LIMIT = 120.0
"""Seconds for a cluster to start and to end, on a machine that is busy."""

SCRIPT = dedent(
    """
    import atexit
    import threading

    import actorlib.blocking as ray

    @ray.remote
    def double(number):
        return 2 * number

    @ray.remote
    class Counter:
        def __init__(self):
            self.value = 0

        def add(self, number):
            self.value += number
            return self.value

        def ask(self, number):
            return ray.get(double.remote(number))

        def count(self, number):
            yield from range(number)

    @ray.remote
    def halves(rows):
        return rows, rows

    def look():
        from ray._private import worker
        dead = [name for name, _ in worker._global_node.dead_processes()]
        print("dead", dead)  # Ray would wait for them

    def in_a_thread():
        print("thread", ray.get(double.remote(4)))

    print("context", ray.init(num_cpus=2, log_to_driver=False))
    print("functions", ray.get([double.remote(i) for i in range(3)]))
    counter = Counter.remote()
    print("object", ray.get(counter.add.remote(ray.put(3))))
    print("inside", ray.get(counter.ask.remote(21)))
    print("stream", [ray.get(ref) for ref in counter.count.remote(3)])
    ready, left = ray.wait([counter.add.remote(1)], timeout=60)
    print("wait", ray.get(ready), left)
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    print("cpus", ray.cluster_resources()["CPU"])
    try:
        ray.nodes()
    except ray.exceptions.UnsupportedOptionError as error:
        print("nodes", "ray.nodes()" in str(error))
    ray.kill(counter)
    try:
        ray.get(counter.add.remote(1), timeout=60)
    except ray.exceptions.ActorDiedError:
        print("killed")
    atexit.register(look)
    parts = [halves.options(num_returns=2).remote([1]) for _ in range(3)]
    raise KeyError("the only traceback")
    """
)
SAYS = """\
context <Context of a runtime>
functions [0, 2, 4]
object 3
inside 42
stream [0, 1, 2]
wait [4] []
thread 8
cpus 2.0
nodes True
killed
dead []
"""


def test_script_when_it_runs_on_ray_then_its_verbs_are_the_same() -> None:
    with TemporaryDirectory(prefix="r") as folder:  # sockets lie in it: a short name
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={
                **os.environ,
                "ACTORLIB_ENGINE": "ray",
                "RAY_AUTH_MODE": "disabled",
                "TMPDIR": folder,
            },
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    assert (ended.returncode, ended.stdout) == (1, SAYS), ended.stderr
    assert ended.stderr.count("Traceback") == 1
    assert "KeyError: 'the only traceback'" in ended.stderr
    assert "never retrieved" not in ended.stderr
