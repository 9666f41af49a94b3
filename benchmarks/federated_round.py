"""One federated round: the batched engine against a plain loop over workers.

    python benchmarks/federated_round.py --data DIR [--task mnist] [--threads 2]

Both draw the same minibatches, train, average and measure the error. The plain loop's time of a
run is the same however many runs there are; the batched engine's falls with runs side by side.

The machine's limit is a round of the large kernels alone, each called once on all workers: gather
the examples, two products a step with the weights between inputs and hidden units, the norm and the
scaling of the gradient, fused Adam, and the product that evaluates the test set. Hardly any of it
gets cheaper with more runs, so the limit is one of time per run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.utils.data import DataLoader, Subset, TensorDataset

from feduplink import Scenario
from feduplink.federated import Federation, FederationSettings, Ideal, load_task
from feduplink.federated.batches import draw_batches
from feduplink.federated.models import ModelStack
from feduplink.federated.task import FederatedData, Task
from feduplink.randomness import numpy_generator
from plain_federation import PlainFederation


def best_seconds(action: Callable[[], object], repeats: int) -> float:
    """Shortest of several timings: the one least disturbed by other work on the machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def batched_round(federation: Federation) -> Callable[[], None]:
    at_once = federation.lanes_at_once()
    numbers = iter(range(federation.rounds))
    return lambda: federation.run_round(next(numbers), at_once)


def loader_round(plain: PlainFederation) -> None:
    """The plain loop with a shuffling ``DataLoader`` a worker, as most would write it."""
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


class Limit:
    """The large kernels of one run's round, in order and on the same memory as in a round."""

    def __init__(self, task: Task, data: FederatedData) -> None:
        self.task, self.data = task, data
        workers = len(data.shares)
        model = ModelStack(task.model()).initial()
        self.weights = {
            name: w.repeat(workers, *[1] * w.ndim).contiguous() for name, w in model.items()
        }
        self.gradients = {name: torch.full_like(w, 1e-3) for name, w in self.weights.items()}
        self.means = [torch.zeros_like(w) for w in self.weights.values()]
        self.squares = [torch.zeros_like(w) for w in self.weights.values()]
        self.steps = [torch.zeros(()) for _ in self.weights]
        hidden = self.weights["hidden.weight"]
        self.slopes = torch.randn(workers, hidden.shape[1], task.work.batch_size)
        self.batches = draw_batches(
            data, task.work, np.ones(workers, bool), np.random.default_rng(0)
        )
        self.seconds: dict[str, list[float]] = {}

    def round(self) -> None:
        """One round, with its parts timed."""
        spent = dict.fromkeys(("gather", "products", "clip", "Adam", "evaluation"), 0.0)

        def timed(part: str, action: Callable[[], Tensor | None]) -> Tensor | None:
            start = time.perf_counter()
            result = action()
            spent[part] += time.perf_counter() - start
            return result

        pool, rows = self.data.pool.inputs, self.batches.rows
        gathered = timed("gather", lambda: pool.index_select(0, rows.flatten()))
        inputs = gathered.view(*rows.shape, -1)
        hidden = self.weights["hidden.weight"]
        target = self.gradients["hidden.weight"]
        # Workers with less data stop early; the limit lets all of them.
        for step in range(int(self.batches.steps.double().mean())):
            seen = inputs[:, step]
            timed("products", lambda seen=seen: torch.bmm(hidden, seen.mT))
            timed("products", lambda seen=seen: torch.bmm(self.slopes, seen, out=target))
            norm = timed("clip", lambda: torch.linalg.vector_norm(target.flatten(1), dim=1))
            timed("clip", lambda norm=norm: target.mul_(norm[:, None, None]))
            timed("Adam", self.adam)
        timed("evaluation", lambda: self.data.test.inputs @ hidden[0].mT)
        for part, seconds in spent.items():
            self.seconds.setdefault(part, []).append(seconds)

    def adam(self) -> None:
        adam(
            list(self.weights.values()),
            list(self.gradients.values()),
            self.means,
            self.squares,
            [],
            self.steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=1e-3,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def describe(self) -> str:
        """The parts' shortest times, and how near they are to what the hardware does at all."""
        best = {part: min(seconds) for part, seconds in self.seconds.items()}
        parts = ", ".join(f"{part} {1e3 * seconds:.2f}" for part, seconds in best.items())
        workers, units, size = self.weights["hidden.weight"].shape
        steps = int(self.batches.steps.double().mean())
        flops = 4 * steps * workers * self.task.work.batch_size * units * size
        # Adam reads weight, gradient and two moments and writes three of them.
        adam_bytes = 7 * 4 * steps * sum(w.numel() for w in self.weights.values())
        return (
            f"  ms: {parts}\n"
            f"  products at {flops / best['products'] / 1e9:.0f} GFLOP/s, a large square product "
            f"at {square_flops_per_s() / 1e9:.0f}; Adam moves "
            f"{adam_bytes / best['Adam'] / 1e9:.0f} GB/s"
        )


def square_flops_per_s(size: int = 1024) -> float:
    factor = torch.randn(size, size)
    return 2 * size**3 / best_seconds(lambda: factor @ factor, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="mnist", choices=("mnist", "digits", "airquality"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    scenario = Scenario(workers=args.workers)
    task = load_task(args.task, workers=args.workers, directory=args.data)

    data = task.data(numpy_generator(0, "data"))
    plain = PlainFederation(task, data, task.model())
    present = torch.ones(args.workers, dtype=torch.bool).numpy()
    rng = numpy_generator(0, "local-training")

    def plain_round() -> None:
        plain.train(draw_batches(data, task.work, present, rng))
        plain.error()

    plain_s = best_seconds(plain_round, args.repeats)
    print(f"{args.task}, {args.workers} workers, {args.threads} threads")
    loader_s = best_seconds(lambda: loader_round(plain), max(3, args.repeats // 5))
    limit = Limit(task, data)
    limit_s = best_seconds(limit.round, args.repeats)
    print(f"plain loop, DataLoader {1e3 * loader_s:8.2f} ms a round")
    print(f"plain loop, indexing   {1e3 * plain_s:8.2f} ms a round")
    print(
        f"the machine's limit    {1e3 * limit_s:8.2f} ms a round: "
        f"{loader_s / limit_s:.1f} and {plain_s / limit_s:.1f} times faster"
    )
    print(limit.describe())
    for runs in (1, args.runs):
        settings = FederationSettings(runs=runs, rounds=args.repeats)
        federation = Federation(task, {"ideal": Ideal()}, scenario, settings)
        per_run = best_seconds(batched_round(federation), args.repeats) / runs
        print(
            f"batched, {runs:3d} run(s)    {1e3 * per_run:8.2f} ms a round and run: "
            f"{loader_s / per_run:.1f} and {plain_s / per_run:.1f} times faster, "
            f"{per_run / limit_s:.2f} times the limit"
        )


if __name__ == "__main__":
    main()
