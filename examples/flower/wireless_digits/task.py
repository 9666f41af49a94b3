"""Your model and your data; nothing here knows of the radio or of Flower."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


def make_model() -> nn.Module:
    """A small classifier of 8 x 8 pixels."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def load_data() -> tuple[Tensor, Tensor]:
    """Handwritten digits, (1797, 64), and their labels, (1797,); workers share the first 1500."""
    digits = load_digits()
    return torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)


def train(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Two passes over a worker's data; returns the last loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    twice = torch.cat([torch.randperm(len(labels)) for _ in range(2)])
    for batch in torch.split(twice, 32):
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """On the digits that no worker holds."""
    images, labels = load_data()
    right = model(images[1500:]).argmax(-1) == labels[1500:]
    return float(right.float().mean())
