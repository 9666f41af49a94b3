"""Networks of the tasks, and vectorised computation of many copies of a module."""

from feduplink.federated.models.lstm import ReviewClassifier
from feduplink.federated.models.stacked import ModelStack, Perceptron, Weights, nguyen_widrow_

__all__ = ["ModelStack", "Perceptron", "ReviewClassifier", "Weights", "nguyen_widrow_"]
