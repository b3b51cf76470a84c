"""joblib's ``n_jobs`` on actorlib."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("joblib")

pytestmark = pytest.mark.process

HEAD = """
import os

import numpy as np
from joblib import Parallel, delayed, parallel_config

import actorlib.joblib

actorlib.joblib.register()
"""


def run(program: str) -> str:
    """Runs a program to its end; returns what it has printed."""
    ran = subprocess.run(
        [sys.executable, "-c", HEAD + dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_parallel_when_it_runs_then_results_are_in_order_from_other_processes() -> None:
    printed = run(
        """
        def task(x):
            return x * x, os.getpid()

        with parallel_config(backend="actorlib", n_jobs=2):
            results = Parallel()(delayed(task)(x) for x in range(50))
        print([square for square, _ in results] == [x * x for x in range(50)])
        print(os.getpid() in {pid for _, pid in results})
        """
    )

    assert printed == "True\nFalse\n"


def test_parallel_when_an_array_is_large_then_tasks_share_one_copy() -> None:
    printed = run(
        """
        from actorlib.blocking.util.state import snapshot

        def task(array, *, weights, x):
            assert not array.flags.writeable and not weights.flags.writeable
            return float(array[x] + weights[x])

        array, weights = np.arange(1e6), np.ones(100_000)
        with parallel_config(backend="actorlib", n_jobs=2):
            tasks = (delayed(task)(array, weights=weights, x=x) for x in range(30))
            results = Parallel(return_as="generator")(tasks)
            print(next(results))
            print(round(snapshot().object_store.live / 1e6, 1))
            print(list(results) == [x + 1.0 for x in range(1, 30)])
        """
    )

    assert printed == "1.0\n8.8\nTrue\n"


def test_parallel_when_a_task_raises_then_it_does_and_can_be_used_again() -> None:
    printed = run(
        """
        def task(x):
            return 1 / x

        with parallel_config(backend="actorlib", n_jobs=2):
            parallel = Parallel()
            try:
                parallel(delayed(task)(x) for x in (2, 0, 1))
            except ZeroDivisionError as error:
                print(error)
            print(parallel(delayed(task)(x) for x in (2, 4)))
        """
    )

    assert printed.splitlines()[0].startswith("division by zero")
    assert printed.splitlines()[-1] == "[0.5, 0.25]"


def test_parallel_when_it_is_nested_then_inner_tasks_run_one_after_the_other() -> None:
    printed = run(
        """
        def inner(x):
            return os.getpid()

        def outer(x):
            pids = Parallel(n_jobs=4)(delayed(inner)(y) for y in range(4))
            return set(pids) == {os.getpid()}

        with parallel_config(backend="actorlib", n_jobs=2):
            print(Parallel()(delayed(outer)(x) for x in range(3)))
        """
    )

    assert printed == "[True, True, True]\n"


def test_parallel_when_results_are_streamed_then_they_come_in_order() -> None:
    printed = run(
        """
        with parallel_config(backend="actorlib", n_jobs=2):
            print(list(Parallel(return_as="generator")(
                delayed(abs)(x) for x in range(-3, 3)
            )))
        """
    )

    assert printed == "[3, 2, 1, 0, 1, 2]\n"


def test_options_when_they_are_given_then_tasks_get_the_resources() -> None:
    printed = run(
        """
        import actorlib.blocking

        actorlib.blocking.init(num_cpus=2, num_gpus=1)

        with parallel_config(backend="actorlib", n_jobs=-1, num_gpus=0.5):
            print(Parallel()(delayed(actorlib.get_gpu_ids)() for _ in range(3)))
            print(Parallel()._effective_n_jobs())
        """
    )

    assert printed == "[[0], [0], [0]]\n2\n"


@pytest.mark.slow
def test_scikit_learn_when_it_runs_then_the_search_finds_the_same_as_alone() -> None:
    pytest.importorskip("sklearn")
    printed = run(
        """
        from sklearn.datasets import make_classification
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import GridSearchCV
        from sklearn.svm import SVC

        X, y = make_classification(300, 10, random_state=0)

        def search():
            found = GridSearchCV(SVC(), {"C": [0.1, 1, 10]}, cv=3).fit(X, y)
            forest = RandomForestClassifier(20, random_state=0).fit(X, y)
            return found.best_params_, found.best_score_, forest.predict(X).tolist()

        alone = search()
        with parallel_config(backend="actorlib", n_jobs=2):
            print(search() == alone)
        """
    )

    assert printed == "True\n"
