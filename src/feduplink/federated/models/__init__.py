"""Models that train as many at once: the tasks' networks, and any module by vectorisation."""

from feduplink.federated.models.bilstm import ReviewClassifier
from feduplink.federated.models.perceptron import Perceptron, nguyen_widrow_
from feduplink.federated.models.stacked import ModelStack, Weights

__all__ = ["ModelStack", "Perceptron", "ReviewClassifier", "Weights", "nguyen_widrow_"]
