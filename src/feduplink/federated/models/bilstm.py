"""The sentiment network: word vectors, a bidirectional LSTM, one score a review.

An LSTM is bound by latency: hundreds of small products in a row, whatever their number. So the
copies of all workers and lanes, and both directions, share one recurrence: a batched product a
token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from feduplink.federated.data.reviews import PADDING
from feduplink.federated.models.recurrence import recur
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
        embedded = self._drop(self.embedding(tokens))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        last = torch.cat((state[-2], state[-1]), dim=1)
        scores: Tensor = self.score(self._drop(last))
        return scores[:, 0]

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(R, B, T) token ids to (R, B) scores, all copies in one recurrence."""
        length = inputs.shape[-1]
        tokens = inputs.transpose(1, 2)  # (R, T, B)
        last = (tokens != PADDING).sum(1, keepdim=True) - 1  # (R, 1, B)
        time = torch.arange(length, device=inputs.device)[:, None]
        # Reading backwards begins at a review's last word; what follows it stays in place.
        mirrored = torch.where(time <= last, last - time, time)

        states = self._drop(_embed(weights["embedding.weight"], tokens))  # (R, T, B, E)
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                forward, backward = states.unbind(1)
                states = self._drop(torch.cat((forward, _reorder(backward, mirrored)), dim=-1))
            both = torch.stack((states, _reorder(states, mirrored)), dim=1)
            states = _lstm_layer(both, *_layer_weights(weights, layer))  # (R, 2, T, B, H)
        final = last[:, None, :, :, None].expand(-1, 2, -1, -1, states.shape[-1])
        ends = states.gather(2, final)[:, :, 0]  # (R, 2, B, H)
        joined = self._drop(torch.cat(ends.unbind(1), dim=-1))
        scores = torch.baddbmm(weights["score.bias"][:, None], joined, weights["score.weight"].mT)
        return scores[..., 0]

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


def _embed(vectors: Tensor, tokens: Tensor) -> Tensor:
    """Look up (R, T, B) ids in R tables (R, V, E): (R, T, B, E)."""
    copies, words, dimensions = vectors.shape
    offset = words * torch.arange(copies, device=tokens.device)[:, None, None]
    return functional.embedding(tokens + offset, vectors.reshape(copies * words, dimensions))


def _reorder(states: Tensor, order: Tensor) -> Tensor:
    """Pick ``states`` (R, T, B, D) along time by ``order`` (R, T, B)."""
    return states.gather(1, order[..., None].expand(states.shape))


def _layer_weights(weights: Weights, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions' weights of a layer: (R, 2, 4H, D), (R, 2, 4H, H) and (R, 2, 4H)."""

    def both(name: str) -> Tensor:
        forward = weights[f"lstm.{name}_l{layer}"]
        return torch.stack((forward, weights[f"lstm.{name}_l{layer}_reverse"]), dim=1)

    return both("weight_ih"), both("weight_hh"), both("bias_ih") + both("bias_hh")


def _lstm_layer(inputs: Tensor, from_input: Tensor, from_state: Tensor, bias: Tensor) -> Tensor:
    """One layer over inputs (R, 2, T, B, D), already in each direction's order of reading.

    Returns the hidden states (R, 2, T, B, H).
    """
    copies, directions, length, batch, _ = inputs.shape
    rows = copies * directions
    projected = torch.baddbmm(
        bias.reshape(rows, 1, -1),
        inputs.reshape(rows, length * batch, -1),
        from_input.reshape(rows, *from_input.shape[2:]).mT,
    )
    recurrent = from_state.reshape(rows, *from_state.shape[2:]).mT
    states = recur(projected.view(rows, length, batch, -1), recurrent)
    return states.view(copies, directions, length, batch, -1)
