"""A sweep: many trials at once, bad ones stopped early, and a table of the best.

A terminal shows a progress bar. The argument is the number of trials.
"""

import statistics
import sys
from dataclasses import dataclass

import numpy as np

import actorlib
from actorlib import ActorHandle, typed

EPOCHS = 40
TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 40


@dataclass(frozen=True)
class Trial:
    """One pair of settings of gradient descent."""

    number: int
    rate: float
    momentum: float


@dataclass(frozen=True)
class Outcome:
    """The result of a trial: the number of its epochs, and its last loss."""

    trial: Trial
    epochs: int
    loss: float


class Judge:
    """Stops a trial that is worse at an epoch than the median of the earlier ones."""

    def __init__(self) -> None:
        self._losses: dict[int, list[float]] = {}

    @actorlib.method
    def should_continue(self, epoch: int, loss: float) -> bool:
        """Records a loss; returns whether the trial should continue."""
        losses = self._losses.setdefault(epoch, [])
        losses.append(loss)
        return epoch < 5 or len(losses) < 4 or loss <= statistics.median(losses)


@actorlib.remote
def train(trial: Trial, judge: ActorHandle[Judge]) -> Outcome:
    """Fits a linear model by gradient descent until the judge stops it."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(2_000, 20)) * np.linspace(0.2, 2.0, 20)
    targets = inputs @ random.normal(size=20) + random.normal(size=2_000) * 0.1
    weights, step = np.zeros(20), np.zeros(20)
    epoch, loss = 0, float("inf")
    for epoch in range(1, EPOCHS + 1):
        errors = inputs @ weights - targets
        loss = min(float(np.mean(errors**2)), 1e9)
        if not actorlib.get(typed(judge).should_continue.remote(epoch, loss)):
            break
        step = trial.momentum * step - trial.rate * (inputs.T @ errors) / 2_000
        weights = weights + step
    return Outcome(trial, epoch, loss)


def trials() -> list[Trial]:
    """Returns random rates and momenta, the same in each run."""
    random = np.random.default_rng(1)
    return [
        Trial(
            number,
            float(10 ** random.uniform(-3.5, 0)),
            float(random.uniform(0.0, 0.95)),
        )
        for number in range(TRIALS)
    ]


async def main() -> None:
    """Runs all trials, four at once, and prints the best."""
    async with actorlib.init(num_cpus=4):
        judge = actorlib.remote(num_cpus=0)(Judge).remote()
        results = train.map(trials(), [judge] * TRIALS, progress="trials")
        outcomes = [outcome async for outcome in results]

    finished = sum(outcome.epochs == EPOCHS for outcome in outcomes)
    epochs = sum(outcome.epochs for outcome in outcomes)
    print(f"{len(outcomes)} trials, {len(outcomes) - finished} stopped early")
    print(f"{epochs} epochs of {TRIALS * EPOCHS} were run")
    print("trial    rate  momentum  epochs      loss")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.loss)[:5]:
        trial = outcome.trial
        print(
            f"{trial.number:5}  {trial.rate:.4f}  {trial.momentum:8.2f}  "
            f"{outcome.epochs:6}  {outcome.loss:.6f}"
        )


actorlib.run(main())
