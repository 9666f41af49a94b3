"""Models that train as many at once: the tasks' networks, and any module by vectorisation."""

from feduplink.federated.models.lstm import ReviewClassifier
from feduplink.federated.models.stacked import ModelStack, Perceptron, Weights, nguyen_widrow_

__all__ = ["ModelStack", "Perceptron", "ReviewClassifier", "Weights", "nguyen_widrow_"]
