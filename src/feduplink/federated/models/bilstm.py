"""The sentiment network: word vectors, a bidirectional LSTM, one score a review.

An LSTM is bound by latency: hundreds of small products in a row, whatever their number. So the
copies of all workers and lanes, and both directions, share one recurrence: a batched product a
token. Its derivative is written out, which leaves one product a token on the way back as well,
and the gradients of the weights as one large product at the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from feduplink.federated.data.reviews import PADDING
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
        stacked = torch.stack((forward, weights[f"lstm.{name}_l{layer}_reverse"]), dim=1)
        # PyTorch orders the gates i, f, g, o; with i, f, o, g one call squashes three of them.
        i, f, g, o = stacked.chunk(4, dim=2)
        return torch.cat((i, f, o, g), dim=2)

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
    states: Tensor = _Recurrence.apply(projected.view(rows, length, batch, -1), recurrent)  # type: ignore[no-untyped-call]
    return states.view(copies, directions, length, batch, -1)


class _Recurrence(torch.autograd.Function):
    """The recurrence of M independent LSTMs from a zero state.

    Gates a_t = x_t + h_{t−1} U with parts i, f, o (squashed by σ) and g (by tanh);
    c_t = f c_{t−1} + i g and h_t = o tanh(c_t). ``projected`` x is (M, T, B, 4H), ``recurrent`` U
    is (M, H, 4H), the result h (M, T, B, H).
    """

    @staticmethod
    def forward(ctx: FunctionCtx, projected: Tensor, recurrent: Tensor) -> Tensor:
        rows, length, batch, width = projected.shape
        size = width // 4
        gates = torch.empty_like(projected)
        cells = projected.new_empty(rows, length, batch, size)
        hidden = torch.empty_like(cells)
        for t in range(length):
            gate, cell = gates[:, t], cells[:, t]
            if t == 0:
                gate.copy_(projected[:, 0])
            else:
                torch.baddbmm(projected[:, t], hidden[:, t - 1], recurrent, out=gate)
            gate[..., : 3 * size].sigmoid_()
            gate[..., 3 * size :].tanh_()
            i, f, o, g = gate.chunk(4, dim=-1)
            torch.mul(i, g, out=cell)
            if t > 0:
                cell.addcmul_(f, cells[:, t - 1])
            torch.mul(o, cell.tanh(), out=hidden[:, t])
        ctx.save_for_backward(gates, cells, hidden, recurrent)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor, Tensor]:
        gates, cells, hidden, recurrent = ctx.saved_tensors
        rows, length, batch, size = hidden.shape
        grad_gates = torch.empty_like(gates)
        back = recurrent.mT.contiguous()
        grad_cell = torch.zeros_like(cells[:, 0])
        for t in reversed(range(length)):
            i, f, o, g = gates[:, t].chunk(4, dim=-1)
            grad_i, grad_f, grad_o, grad_g = grad_gates[:, t].chunk(4, dim=-1)
            grad_state = grad_hidden[:, t]
            if t + 1 < length:
                grad_state = torch.baddbmm(grad_state, grad_gates[:, t + 1], back)
            squashed = cells[:, t].tanh()
            torch.mul(grad_state, squashed, out=grad_o)
            # d tanh(c)/dc = 1 − tanh²(c)
            grad_cell += grad_state * o * (1 - squashed.square_())
            torch.mul(grad_cell, g, out=grad_i)
            torch.mul(grad_cell, i * (1 - g.square()), out=grad_g)
            if t > 0:
                torch.mul(grad_cell, cells[:, t - 1], out=grad_f)
                grad_cell *= f
            else:
                grad_f.zero_()
            squashing = gates[:, t, :, : 3 * size]
            grad_gates[:, t, :, : 3 * size] *= squashing * (1 - squashing)
        before = functional.pad(hidden[:, :-1], (0, 0, 0, 0, 1, 0))
        grad_recurrent = torch.bmm(
            before.reshape(rows, length * batch, size).mT,
            grad_gates.view(rows, length * batch, 4 * size),
        )
        return grad_gates, grad_recurrent
