"""The sentiment network: word vectors, a bidirectional LSTM, one score per review.

An LSTM is bound by latency: hundreds of small products in a row, whatever their number. So the
copies of all workers and simulations, and both directions, share one recurrence: one batched
product per token. Copies whose reviews are short leave it early.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from feduplink.federated.data.reviews import PADDING
from feduplink.federated.models.packing import Packing
from feduplink.federated.models.recurrence import lstm_layer
from feduplink.federated.models.stacked import Weights


class ReviewClassifier(nn.Module):
    """Embedding, LSTM layers in both directions, and a linear score of their last states.

    With 5,002 words of 50 dimensions and two layers of 128 the weights number 829,941:
    250,100 in the embedding (trained, like the rest), 579,584 in the LSTM, 257 in the score.
    """

    def __init__(
        self, word_vectors: Tensor, hidden: int = 128, layers: int = 2, dropout: float = 0.5
    ) -> None:
        super().__init__()
        words, dimensions = word_vectors.shape
        self.embedding = nn.Embedding(words, dimensions, padding_idx=PADDING)
        self.embedding.weight.data.copy_(word_vectors)
        self.lstm = nn.LSTM(
            dimensions,
            hidden,
            layers,
            bidirectional=True,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.score = nn.Linear(2 * hidden, 1)
        self.dropout = dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores (B,) of reviews (B, T) of token ids, padded at the end; positive above 0."""
        lengths = (tokens != PADDING).sum(1).cpu()
        embedded = self._drop(self.embedding(tokens.long()))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        last = torch.cat((state[-2], state[-1]), dim=1)
        scores: Tensor = self.score(self._drop(last))
        return scores[:, 0]

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(R, B, T) token ids to (R, B) scores, all copies in one recurrence."""
        lengths = (inputs != PADDING).sum(-1)  # (R, B)
        longest, order = lengths.amax(1).sort(descending=True, stable=True)
        # Longest first, so that at any time the copies that still read are the first ones.
        weights = {name: weight.index_select(0, order) for name, weight in weights.items()}
        reading = _Reading(lengths[order], longest.tolist())
        tokens = inputs.index_select(0, order).transpose(1, 2)  # (R, T, B)

        words = tokens[reading.words.sequence, reading.words.time]  # (N, B)
        states = self._drop(
            _embed(weights["embedding.weight"], words, reading.words.sequence)
        )  # (N, B, E)
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                states = self._drop(_picked(states, reading.joined))  # (N, B, 2H)
            states = lstm_layer(
                _picked(states, reading.order),
                reading.both.stretches,
                *_layer_weights(weights, layer),
            )  # (2N, B, H)
        ends = self._drop(_picked(states, reading.ends))  # (R, B, 2H)
        scores = torch.baddbmm(weights["score.bias"][:, None], ends, weights["score.weight"].mT)
        return scores[order.argsort(), :, 0]

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class _Reading:
    """Where the words of R batches lie, and where each direction comes across them.

    Copies are sorted by the longest review of their batch; N is the sum of those lengths. Reading
    backwards begins at a review's last word, and what follows that word stays in place.

    Attributes:
        words: packing of the words, a sequence per copy, N places.
        both: packing of the states, sequences 2r forward and 2r + 1 backward, 2N places.
        order: which word each direction reads at a place of ``both``, (2N, B).
        joined: the states, forward and backward, that belong to a word, (N, B, 2).
        ends: the states after the last word read, forward and backward, (R, B, 2).

    Indices count the B reviews of a place one by one.

    """

    def __init__(self, lengths: Tensor, longest: list[int]) -> None:
        """For reviews of ``lengths`` (R, B), the longest of each batch falling."""
        self._last = lengths - 1
        self.words = Packing(longest, lengths.device)
        self.both = Packing([length for length in longest for _ in range(2)], lengths.device)

        copy, time = self.both.sequence // 2, self.both.time
        backward = (self.both.sequence % 2 == 1)[:, None]
        read = torch.where(backward, self._mirrored(copy, time), time[:, None])
        self.order = self._each(self.words.place(copy[:, None], read))

        copy, time = self.words.sequence, self.words.time
        mirrored = self._mirrored(copy, time)
        there = self.both.place(2 * copy, time)[:, None].expand_as(mirrored)
        back = self.both.place(2 * copy[:, None] + 1, mirrored)
        self.joined = torch.stack((self._each(there), self._each(back)), dim=-1)

        copy = torch.arange(len(lengths), device=lengths.device)[:, None]
        there, back = (self.both.place(2 * copy + d, self._last) for d in range(2))
        self.ends = torch.stack((self._each(there), self._each(back)), dim=-1)

    def _mirrored(self, copy: Tensor, time: Tensor) -> Tensor:
        """Time counted from a review's last word, (n, B), of copies and times (n,)."""
        last, time = self._last[copy], time[:, None]
        return torch.where(time <= last, last - time, time)

    def _each(self, place: Tensor) -> Tensor:
        """Index of each of the B reviews at its place, (n, B)."""
        batch = place.shape[1]
        return place * batch + torch.arange(batch, device=place.device)


def _embed(vectors: Tensor, tokens: Tensor, copy: Tensor) -> Tensor:
    """Look up ids (N, B), row n of them in table ``copy[n]`` of R (R, V, E): (N, B, E)."""
    rows = tokens.long() + vectors.shape[1] * copy[:, None]
    return functional.embedding(rows, vectors.flatten(0, 1))


def _picked(states: Tensor, index: Tensor) -> Tensor:
    """Of ``states`` (n, B, D) those at ``index`` (m, B, ...), side by side: (m, B, … · D)."""
    picked = states.flatten(0, 1).index_select(0, index.flatten())
    return picked.view(*index.shape[:2], -1)


def _layer_weights(weights: Weights, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """A layer's weights, both directions of a copy in a row: (2R, D, 4H), (2R, H, 4H), (2R, 4H)."""

    def both(name: str) -> Tensor:
        forward = weights[f"lstm.{name}_l{layer}"]
        backward = weights[f"lstm.{name}_l{layer}_reverse"]
        return torch.stack((forward, backward), dim=1).flatten(0, 1)

    return both("weight_ih").mT, both("weight_hh").mT, both("bias_ih") + both("bias_hh")
