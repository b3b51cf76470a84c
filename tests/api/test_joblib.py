"""joblib's ``n_jobs`` on actorlib."""

from __future__ import annotations

from textwrap import dedent

import pytest
from helpers.program_runner import printed_by

pytest.importorskip("joblib")

pytestmark = pytest.mark.process

HEAD = """
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

import actorlib
import actorlib.blocking
import actorlib.joblib
from actorlib.blocking.util.state import snapshot

actorlib.joblib.register()
"""


def run(program: str) -> list[str]:
    """Runs a program to its end; returns the lines that it has printed."""
    return printed_by(HEAD + dedent(program), limit=120).splitlines()


def test_parallel_when_it_runs_then_results_are_in_order_from_other_processes() -> None:
    printed = run(
        """
        def square(x):
            return x * x, os.getpid()

        def divide(x):
            return 1 / x

        def inner(x):
            return os.getpid()

        def outer(x):
            pids = Parallel(n_jobs=4)(delayed(inner)(y) for y in range(4))
            return set(pids) == {os.getpid()}

        def add(array, *, weights, x, gate):
            while x and not gate.exists():  # so that calls with the arrays are there
                time.sleep(0.001)
            assert not array.flags.writeable and not weights.flags.writeable
            return float(array[x] + weights[x])

        array, weights = np.arange(1e6), np.ones(100_000)
        with parallel_config(backend="actorlib", n_jobs=2):
            results = Parallel()(delayed(square)(x) for x in range(50))
            print("order", [square for square, _ in results] == [
                x * x for x in range(50)
            ])
            print("elsewhere", os.getpid() not in {pid for _, pid in results})
            print("nested", Parallel()(delayed(outer)(x) for x in range(3)))

            folder = tempfile.TemporaryDirectory()
            gate = Path(folder.name, "gate")
            tasks = (
                delayed(add)(array, weights=weights, x=x, gate=gate) for x in range(30)
            )
            results = Parallel(return_as="generator")(tasks)
            print("streamed", next(results))
            print("one copy", round(snapshot().object_store.live / 1e6, 1))
            gate.touch()
            print("all", list(results) == [x + 1.0 for x in range(1, 30)])

            parallel = Parallel()
            try:
                parallel(delayed(divide)(x) for x in (2, 0, 1))
            except ZeroDivisionError as error:
                print("failed", str(error).splitlines()[0])
            print("again", parallel(delayed(divide)(x) for x in (2, 4)))
        """
    )

    assert printed == [
        "order True",
        "elsewhere True",
        "nested [True, True, True]",
        "streamed 1.0",
        "one copy 8.8",
        "all True",
        "failed division by zero",
        "again [0.5, 0.25]",
    ]


def test_options_when_they_are_given_then_tasks_get_the_resources() -> None:
    printed = run(
        """
        actorlib.blocking.init(num_cpus=2, num_gpus=1)

        with parallel_config(backend="actorlib", n_jobs=-1, num_gpus=0.5):
            print(Parallel()(delayed(actorlib.get_gpu_ids)() for _ in range(3)))
            print(Parallel()._effective_n_jobs())
        """
    )

    assert printed == ["[[0], [0], [0]]", "2"]


@pytest.mark.thorough
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

    assert printed == ["True"]
