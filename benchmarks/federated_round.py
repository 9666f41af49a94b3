"""One federated round: the batched engine against a plain loop over workers.

    python benchmarks/federated_round.py --data DIR [--task mnist] [--threads 2]

Both draw the same minibatches, train, average and measure the error. The plain loop's time of a
run is the same however many runs there are; the batched engine's falls with runs side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
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


def least_s(task: Task, data: FederatedData, repeats: int) -> float:
    """What a round of the two-layer nets cannot go below: its large products and Adam's pass."""
    stack = ModelStack(task.model())
    named = stack.named(stack.initial().repeat(len(data.shares), 1))
    first = named["hidden.weight"].contiguous()
    inputs = torch.randn(len(first), task.work.batch_size, first.shape[-1])
    slopes = torch.randn(len(first), first.shape[1], task.work.batch_size)
    weights = torch.zeros(len(first), stack.weights_per_model)
    weights.grad = torch.ones_like(weights)
    adam = torch.optim.Adam([weights], fused=True)
    steps = draw_batches(data, task.work, np.ones(len(first), bool), np.random.default_rng(0)).steps

    def round_of_products() -> None:
        for _ in range(int(steps.double().mean())):
            torch.bmm(first, inputs.mT)
            torch.bmm(slopes, inputs)
            adam.step()
        data.test.inputs @ first[0].mT

    return best_seconds(round_of_products, repeats)


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
    print(f"plain loop, DataLoader {1e3 * loader_s:8.2f} ms a round")
    print(f"plain loop, indexing   {1e3 * plain_s:8.2f} ms a round")
    print(f"products and Adam alone {1e3 * least_s(task, data, args.repeats):7.2f} ms a round")
    for runs in (1, args.runs):
        settings = FederationSettings(runs=runs, rounds=args.repeats)
        federation = Federation(task, {"ideal": Ideal()}, scenario, settings)
        per_run = best_seconds(batched_round(federation), args.repeats) / runs
        print(
            f"batched, {runs:3d} run(s)    {1e3 * per_run:8.2f} ms a round and run: "
            f"{loader_s / per_run:.1f} and {plain_s / per_run:.1f} times faster"
        )


if __name__ == "__main__":
    main()
