"""A sweep with Optuna: four trials at once, bad ones stopped early, then resumed.

The arguments are the number of trials, and a file that keeps them: a run that was ended
goes on from there. It needs the package optuna.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import actorlib

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import Trial, TrialState
except ImportError:
    sys.exit("this example needs Optuna: pip install optuna")

AT_ONCE = 4
EPOCHS = 30


@actorlib.remote(num_cpus=1, backpressure=1)
def train(rate: float, momentum: float) -> Iterator[float]:
    """Fits a linear model by gradient descent; yields the loss of each epoch."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(2_000, 20)) * np.linspace(0.2, 2.0, 20)
    targets = inputs @ random.normal(size=20) + random.normal(size=2_000) * 0.1
    weights, step = np.zeros(20), np.zeros(20)
    for _ in range(EPOCHS):
        errors = inputs @ weights - targets
        yield min(float(np.mean(errors**2)), 1e9)
        step = momentum * step - rate * (inputs.T @ errors) / 2_000
        weights = weights + step


async def run_trial(study: optuna.Study, trial: Trial) -> None:
    """Runs a trial until it is done or worse than the others, and prints its row."""
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    momentum = trial.suggest_float("momentum", 0.0, 0.95)
    is_pruned, epoch, loss = False, 0, float("inf")
    async for ref in train.remote(rate, momentum):
        epoch, loss = epoch + 1, await ref
        trial.report(loss, epoch)
        if trial.should_prune():
            is_pruned = True
            break  # ends the stream, and the worker is free
    if is_pruned:
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, loss)
    print(
        f"{trial.number:5}  {rate:.4f}  {momentum:8.2f}  {epoch:6}  {loss:14.6f}  "
        f"{'pruned' if is_pruned else 'complete'}",
        flush=True,
    )


async def sweep(path: Path, count: int) -> None:
    """Runs trials until a study has so many that are complete or pruned."""
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(str(path))),
        sampler=optuna.samplers.TPESampler(),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=3),
        load_if_exists=True,
    )
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)  # the program was ended
    ended = len(study.get_trials(states=[TrialState.COMPLETE, TrialState.PRUNED]))
    print(f"{ended} trials are in the file, {max(0, count - ended)} are to run")
    left = iter(range(count - ended))

    async def run_some() -> None:
        for _ in left:
            await run_trial(study, study.ask())

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(run_some())
    print(
        f"the best loss is {study.best_value:.6f}, of trial {study.best_trial.number}"
    )


async def main() -> None:
    """Runs a sweep; without a file, in two halves, the second of which resumes it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    print("trial    rate  momentum  epochs            loss  state")
    async with actorlib.init(num_cpus=AT_ONCE):
        if len(sys.argv) > 2:
            await sweep(Path(sys.argv[2]), count)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "sweep.journal")
            await sweep(path, count // 2)
            await sweep(path, count)


actorlib.run(main())
