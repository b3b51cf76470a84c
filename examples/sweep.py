"""A sweep: many trials side by side, bad ones stopped early, a table of the best.

On a terminal a line says how far it is. Run with a number for so many trials.
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
    """What is tried: one pair of settings of gradient descent."""

    number: int
    rate: float
    momentum: float


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: how many epochs it ran, and its last loss."""

    trial: Trial
    epochs: int
    loss: float


class Judge:
    """Stops a trial that is worse at an epoch than half of those that came so far."""

    def __init__(self) -> None:
        self._losses: dict[int, list[float]] = {}

    @actorlib.method
    def may_go_on(self, epoch: int, loss: float) -> bool:
        """Notes the loss of a trial; the first ones have nobody to be compared to."""
        losses = self._losses.setdefault(epoch, [])
        losses.append(loss)
        return epoch < 5 or len(losses) < 4 or loss <= statistics.median(losses)


@actorlib.remote
def train(trial: Trial, judge: ActorHandle[Judge]) -> Outcome:
    """Fits a line through noise by gradient descent, for as long as it is worth it."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(2_000, 20)) * np.linspace(0.2, 2.0, 20)
    targets = inputs @ random.normal(size=20) + random.normal(size=2_000) * 0.1
    weights, step = np.zeros(20), np.zeros(20)
    epoch, loss = 0, float("inf")
    for epoch in range(1, EPOCHS + 1):
        errors = inputs @ weights - targets
        loss = min(float(np.mean(errors**2)), 1e9)
        if not actorlib.get(typed(judge).may_go_on.remote(epoch, loss)):
            break
        step = trial.momentum * step - trial.rate * (inputs.T @ errors) / 2_000
        weights = weights + step
    return Outcome(trial, epoch, loss)


def trials() -> list[Trial]:
    """Settings to try: rates and momenta at random, the same each time."""
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
    """Runs all trials, as many at once as there are CPUs, and shows the best."""
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
