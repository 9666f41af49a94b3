"""The federated loop for one network, 784–50–10 with tanh and softmax, and for nothing else.

Forward pass, gradients, clipping and average are written out by hand on memory that is set aside
once: no modules, no autograd, no loss or optimiser to choose. Only the arithmetic is left, so this
is what PyTorch's kernels allow a round on a given machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

from feduplink.federated import RoundBatches
from feduplink.federated.models import Weights
from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork

_PARAMETERS = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")


class Stopwatch:
    """Seconds by part, from one call to the next."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """What went by since the last call belongs to ``part``."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


class HandwrittenFederation:
    """Some runs that share a test set, with every upload arriving and full minibatches."""

    def __init__(
        self, work: LocalWork, data: Sequence[FederatedData], models: Weights, at_once: int
    ) -> None:
        """``models`` (runs, *shape) by parameter; ``at_once`` runs train side by side."""
        self.models = [models[name].clone() for name in _PARAMETERS]
        self._test = data[0].test
        self._groups = [
            (runs, _SideBySide(work, data[runs], [model[runs] for model in self.models]))
            for runs in (slice(i, i + at_once) for i in range(0, len(data), at_once))
        ]

    def round(self, drawn: Sequence[RoundBatches]) -> tuple[Tensor, dict[str, float]]:
        """Train, average and measure every run; the errors (runs,) and the seconds by part."""
        watch = Stopwatch()
        for runs, group in self._groups:
            group.train(drawn[runs], watch)
        errors = measure(self.models, self._test)
        watch.lap("evaluation")
        return errors, watch.seconds


def measure(models: list[Tensor], test: Examples) -> Tensor:
    """Share of wrong answers of every model, (models,)."""
    weight, bias, output_weight, output_bias = models
    hidden = torch.addmm(bias.view(-1, 1), weight.flatten(0, 1), test.inputs.mT).tanh_()
    scores = torch.baddbmm(output_bias[..., None], output_weight, hidden.unflatten(0, bias.shape))
    return (scores.argmax(1) != test.targets).double().mean(1)


class _SideBySide:
    """Runs whose R = runs · L workers train as one."""

    def __init__(
        self, work: LocalWork, data: Sequence[FederatedData], models: list[Tensor]
    ) -> None:
        self._work, self._data, self._models = work, data, models
        sizes = torch.stack([run.sizes for run in data]).float()
        self._share = sizes / sizes.sum(1, keepdim=True)  # k_i / Σ k_j, (runs, L)
        workers = self._share.numel()
        pixels = data[0].pool.inputs.shape[1]
        self._inputs = torch.empty(workers, work.batches, work.batch_size, pixels)
        self._local, self._gradients, self._means, self._squares = (
            [torch.zeros(workers, *model.shape[1:]) for model in models] for _ in range(4)
        )
        self._steps = [torch.zeros(()) for _ in models]

    def train(self, drawn: Sequence[RoundBatches], watch: Stopwatch) -> None:
        """One round of all workers, and the average of every run."""
        runs, workers = self._share.shape
        places = torch.split(self._inputs, workers)
        for data, batches, place in zip(self._data, drawn, places, strict=True):
            rows = batches.rows.flatten()
            torch.index_select(data.pool.inputs, 0, rows, out=place.flatten(0, 2))
        labels = torch.cat(
            [
                data.pool.targets[batches.rows]
                for data, batches in zip(self._data, drawn, strict=True)
            ]
        )
        watch.lap("gather")
        for local, model in zip(self._local, self._models, strict=True):
            local.unflatten(0, (runs, workers)).copy_(model[:, None])
        watch.lap("broadcast and average")
        for step in range(labels.shape[1]):
            self._step(self._inputs[:, step], labels[:, step, None], watch)
        for local, model in zip(self._local, self._models, strict=True):
            sent = local.unflatten(0, (runs, workers)).flatten(2)  # (runs, L, n)
            for run, share in enumerate(self._share):
                torch.mv(sent[run].mT, share, out=model[run].view(-1))
        watch.lap("broadcast and average")

    def _step(self, inputs: Tensor, labels: Tensor, watch: Stopwatch) -> None:
        """Inputs (R, B, pixels) and labels (R, 1, B)."""
        weight, bias, output_weight, output_bias = self._local
        to_weight, to_bias, to_output_weight, to_output_bias = self._gradients
        hidden = torch.baddbmm(bias[..., None], weight, inputs.mT)
        watch.lap("products")
        hidden.tanh_()
        slopes = torch.baddbmm(output_bias[..., None], output_weight, hidden).softmax(1)
        one = slopes.new_ones(()).expand(labels.shape)
        slopes.scatter_add_(1, labels, -one).div_(labels.shape[-1])  # of the mean loss
        torch.bmm(slopes, hidden.mT, out=to_output_weight)
        torch.sum(slopes, 2, out=to_output_bias)
        back = torch.bmm(output_weight.mT, slopes).mul_(1 - hidden.square())
        torch.sum(back, 2, out=to_bias)
        watch.lap("units and loss")
        torch.bmm(back, inputs, out=to_weight)
        watch.lap("products")
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in self._gradients]
        norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        scale = (self._work.clip_norm / (norm + 1e-6)).clamp_max_(1.0)
        for gradient in self._gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
        watch.lap("clip")
        adam(
            self._local,
            self._gradients,
            self._means,
            self._squares,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._work.learning_rate,
            weight_decay=self._work.weight_decay,
            eps=self._work.epsilon,
            maximize=False,
        )
        watch.lap("Adam")
