"""One federated round: the batched engine against a plain loop over workers.

    python benchmarks/federated_round.py --data DIR [--task mnist] [--threads 2]

All draw minibatches, train, average and measure the error. The plain loop's time of a run is the
same however many runs there are; the batched engine's falls with runs side by side.

The machine's limit is the same round written out by hand for this network alone
(``handwritten_federation.py``). Engine and limit take turns, round by round, on the same
minibatches, and have to end with the same models.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from feduplink import Scenario
from feduplink.federated import Federation, FederationSettings, draw_batches, load_task
from feduplink.federated.tasks.task import Task
from feduplink.policies import Ideal
from feduplink.randomness import numpy_generator
from handwritten_federation import HandwrittenFederation
from plain_federation import PlainFederation


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Shortest of several timings: the one least disturbed by other work on the machine."""
    return min(seconds(action) for _ in range(repeats))


def loader_round(plain: PlainFederation) -> None:
    """The plain loop with a shuffling ``DataLoader`` per worker, as most would write it."""
    data, work = plain.data, plain.task.work
    for share, worker, optimizer in zip(data.shares, plain.workers, plain.optimizers, strict=True):
        worker.load_state_dict(plain.model.state_dict())
        examples = TensorDataset(data.pool.inputs, data.pool.targets)
        loader = DataLoader(Subset(examples, share.tolist()), work.batch_size, shuffle=True)
        for inputs, targets in islice(loader, work.batches):
            optimizer.zero_grad()
            plain.task.loss(worker(inputs), targets).mean().backward()
            nn.utils.clip_grad_norm_(worker.parameters(), work.clip_norm)
            optimizer.step()
    plain.average(range(len(plain.workers)))
    plain.error()


class Race:
    """The engine and the round by hand, for some runs; times are per round and run."""

    def __init__(self, task: Task, workers: int, runs: int, rounds: int) -> None:
        settings = FederationSettings(runs=runs, rounds=rounds)
        scenario = Scenario(workers=workers)
        self.engine = Federation(task, {"ideal": Ideal(scenario)}, scenario, settings)
        self.at_once = self.engine.capacity().simulations
        self.hand = HandwrittenFederation(
            task.work, self.engine.data, self.engine.state.weights, self.at_once
        )
        self.runs = runs
        self.parts: list[dict[str, float]] = []
        engine_s, hand_s = [], []
        for number in range(rounds):
            engine_s.append(seconds(lambda n=number: self.engine.run_round(n, self.at_once)))
            hand_s.append(seconds(lambda n=number: self.by_hand(n)))
        self.engine_s, self.hand_s = min(engine_s) / runs, min(hand_s) / runs

    def by_hand(self, number: int) -> None:
        drawn = [self.engine.round_batches(run, number) for run in range(self.runs)]
        self.parts.append(self.hand.round(drawn)[1])

    def check(self) -> None:
        """Both have trained the same models."""
        for found, expected in zip(
            self.hand.models, self.engine.state.weights.values(), strict=True
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)

    def describe(self) -> str:
        """The parts' shortest times, and how near they are to what the hardware does at all."""
        best = {
            part: min(spent[part] for spent in self.parts) / self.runs for part in self.parts[0]
        }
        listed = ", ".join(f"{part} {1e3 * spell:.2f}" for part, spell in best.items())
        _, workers, units, size = self.engine.state.adam.mean["hidden.weight"].shape
        work = self.engine.task.work
        steps = work.batches
        flops = 4 * steps * workers * work.batch_size * units * size
        # Adam reads weight, gradient and two moments and writes three of them.
        moved = 7 * 4 * steps * workers * self.engine.stack.weights_per_model
        return (
            f"  by hand, ms: {listed}\n"
            f"  products at {flops / best['products'] / 1e9:.0f} GFLOP/s, a large square product "
            f"at {square_flops_per_s() / 1e9:.0f}; Adam moves {moved / best['Adam'] / 1e9:.0f} GB/s"
        )


def square_flops_per_s(size: int = 1024) -> float:
    factor = torch.randn(size, size)
    return 2 * size**3 / best_seconds(lambda: factor @ factor, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="mnist", choices=("mnist", "digits"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    task = load_task(args.task, workers=args.workers, directory=args.data)

    data = task.data(numpy_generator(0, "data"))
    plain = PlainFederation(task, data, task.model())
    present = torch.ones(args.workers, dtype=torch.bool).numpy()
    rng = numpy_generator(0, "local-training")

    def plain_round() -> None:
        plain.train(draw_batches(data, task.work, present, rng, order=rng))
        plain.error()

    plain_s = best_seconds(plain_round, args.repeats)
    loader_s = best_seconds(lambda: loader_round(plain), max(3, args.repeats // 5))
    print(f"{args.task}, {args.workers} workers, {args.threads} threads; ms per round and run")
    print(f"plain loop, DataLoader {1e3 * loader_s:8.2f}")
    print(f"plain loop, indexing   {1e3 * plain_s:8.2f}")

    def line(name: str, spent: float) -> str:
        faster = f"{loader_s / spent:.1f} and {plain_s / spent:.1f} times faster"
        return f"{name:22s} {1e3 * spent:8.2f}, {faster}"

    for runs in (1, args.runs):
        race = Race(task, args.workers, runs, args.repeats)
        race.check()
        print(line(f"batched, {runs} run(s)", race.engine_s))
        print(line(f"by hand, {runs} run(s)", race.hand_s), end="")
        print(f"; the engine takes {race.engine_s / race.hand_s:.2f} times as long")
    print(race.describe())


if __name__ == "__main__":
    main()
