"""The paper's figures, one module each, and those that it lacks.

A module has ``TITLE`` and ``CAPTION``; ``DATA``, the data set of the paper that it needs, or None;
``VERSION`` of its kept results, increased by hand when a change of the code changes them;
``RESULT``, the class of its result, which knows JSON (it is a pydantic model) and CSV
(``to_csv()``, and ``from_csv(text)`` for as much as claims rest on); ``run(context)``, which makes
the result; and ``claims(result)``, which judges what the paper says by it. How results are drawn is
said in :mod:`feduplink.reporting`.
"""

from feduplink.experiments.figures import EXPERIMENTS, Experiment, claims_from_csv

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "claims_from_csv",
]
