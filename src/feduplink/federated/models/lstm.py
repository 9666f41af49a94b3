"""Sentiment network of word vectors and a bidirectional LSTM, for many models at once.

An LSTM is limited by latency, because it computes hundreds of small products in sequence. The
models of all workers and simulations, and both directions, therefore share one recurrence with one
batched product per time step in the forward and in the backward pass. Contributions of the inputs
and gradients of the weights are computed in large products. On a GPU the element-wise operations
are the fused kernel of ``nn.LSTMCell``. ``docs/notes/lstm.md`` compares it with ``nn.LSTM``.

Sequences are packed in descending order of length; a time step only processes those that have not
ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from feduplink.federated.data.reviews import PADDING
from feduplink.federated.models.stacked import Weights

#: Maximum number of time steps in a stretch: limits the memory of products over a stretch, but
#: keeps them large enough to be efficient on a GPU.
_MAX_STEPS = 32


@dataclass(frozen=True)
class Stretch:
    """Consecutive time steps with the same running sequences.

    Attributes:
        start: first time step.
        duration: number of time steps.
        running: number of sequences that have not ended; they are the first ones.
        place: first place of the stretch in a packed tensor.

    """

    start: int
    duration: int
    running: int
    place: int

    def view_of(self, packed: Tensor) -> Tensor:
        """View of the stretch in a packed tensor (N, ...), (running, duration, ...)."""
        part = packed[self.place : self.place + self.running * self.duration]
        return part.view(self.running, self.duration, *packed.shape[1:])


class Packing:
    """Packing of M sequences in N = Σ lengths places, stretch by stretch.

    Time steps of a sequence are adjacent within a stretch, so that products with one matrix per
    sequence are one batched product per stretch.

    Args:
        lengths: lengths of the sequences, in descending order, (M,).
        device: device of the indices.

    Attributes:
        stretches: stretches in the order of time and of memory.
        sequence: sequence at each place, (N,) int64.
        time: time step at each place, (N,) int64.

    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.stretches = _stretches(lengths)
        sequences, times = [], []
        first = np.zeros(lengths[0], np.int64)  # place of sequence 0, by time step
        apart = np.zeros(lengths[0], np.int64)  # distance between adjacent sequences, by time step
        for s in self.stretches:
            steps = np.arange(s.start, s.start + s.duration)
            sequences.append(np.repeat(np.arange(s.running), s.duration))
            times.append(np.tile(steps, s.running))
            first[steps] = s.place + steps - s.start
            apart[steps] = s.duration

        def moved(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
            return torch.from_numpy(values).to(device)

        self.sequence, self.time = moved(np.concatenate(sequences)), moved(np.concatenate(times))
        self._first, self._apart = moved(first), moved(apart)

    def place(self, sequence: Tensor, time: Tensor) -> Tensor:
        """Places of time steps ``time`` of sequences ``sequence``, int64, broadcast together."""
        return self._first[time] + sequence * self._apart[time]


def _stretches(lengths: Sequence[int]) -> list[Stretch]:
    """Split time at the ends of sequences and at multiples of :data:`_MAX_STEPS` steps."""
    ends = sorted({*lengths, *range(_MAX_STEPS, lengths[0], _MAX_STEPS)})
    stretches, start, place, running = [], 0, 0, len(lengths)
    for end in ends:
        while lengths[running - 1] <= start:
            running -= 1
        stretches.append(Stretch(start, end - start, running, place))
        place += running * (end - start)
        start = end
    return stretches


def lstm_layer(
    inputs: Tensor,
    stretches: Sequence[Stretch],
    from_input: Tensor,
    from_state: Tensor,
    bias: Tensor,
) -> Tensor:
    """Compute the hidden states of M LSTM layers with zero initial states.

    The gates x_t W + h_{t−1} U + b have the parts i, f, g, o in PyTorch's order, with activation
    tanh for g and σ for the others; c_t = f c_{t−1} + i g and h_t = o tanh(c_t).

    Args:
        inputs: packed inputs x of B sequences of equal length per LSTM, (N, B, D).
        stretches: stretches of the packing.
        from_input: weights W of the inputs, (M, D, 4H).
        from_state: weights U of the hidden state, (M, H, 4H).
        bias: bias b, (M, 4H).

    Returns:
        Packed hidden states h, (N, B, H).
    """
    states: Tensor = _Layer.apply(  # type: ignore[no-untyped-call]
        inputs, from_input, from_state, bias, stretches
    )
    return states


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        from_input: Tensor,
        from_state: Tensor,
        bias: Tensor,
        stretches: Sequence[Stretch],
    ) -> Tensor:
        batch, size = inputs.shape[1], from_state.shape[1]
        hidden = inputs.new_empty(len(inputs), batch, size)
        state = cell = inputs.new_zeros(len(bias), batch, size)
        cells, activations = [], []
        remember = any(ctx.needs_input_grad)
        for stretch in stretches:
            n = stretch.running
            projected = torch.baddbmm(
                bias[:n, None], stretch.view_of(inputs).flatten(1, 2), from_input[:n]
            ).view(n, stretch.duration, batch, 4 * size)
            recurrent, states = from_state[:n], []
            state, cell = state[:n], cell[:n]
            # Kernel launches dominate the time of a step, so a step has as few as possible.
            for contribution in projected.transpose(0, 1).contiguous():
                state, cell, activation = _step(contribution, state, cell, recurrent)
                states.append(state)
                if remember:
                    cells.append(cell)
                    activations.append(activation)
            torch.stack(states, dim=1, out=stretch.view_of(hidden))
        ctx.stretches = stretches
        ctx.save_for_backward(inputs, from_input, from_state, hidden, *cells, *activations)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        inputs, from_input, from_state, hidden, *saved = ctx.saved_tensors
        stretches: Sequence[Stretch] = ctx.stretches
        cells, activations = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        batch, size = hidden.shape[1:]
        to_state = from_state.mT.contiguous()
        grad_inputs = torch.empty_like(inputs)
        grad_from_input = torch.zeros_like(from_input)
        grad_from_state = torch.zeros_like(from_state)
        grad_bias = from_input.new_zeros(len(from_input), 4 * size)
        grad_gates = hidden.new_empty(0, batch, 4 * size)  # of the next time step
        grad_cell = hidden.new_empty(0, batch, size)
        for number, stretch in reversed(list(enumerate(stretches))):
            n, first = stretch.running, stretch.start
            # The gradient is zero after the end of a sequence.
            grad_cell = functional.pad(grad_cell, (0, 0, 0, 0, 0, n - len(grad_cell)))
            grad_states = (
                stretch.view_of(grad_hidden)
                .transpose(0, 1)
                .clone(memory_format=torch.contiguous_format)
            )
            grads = []
            for t in reversed(range(stretch.duration)):
                later = len(grad_gates)
                grad_state = grad_states[t]
                grad_state[:later].baddbmm_(grad_gates, to_state[:later])
                now = first + t
                before = cells[now - 1][:n] if now else torch.zeros_like(cells[0])
                grad_gates, grad_cell = _step_back(
                    grad_state, grad_cell, before, cells[now], activations[now]
                )
                grads.append(grad_gates)
            grad_projected = torch.stack(grads[::-1], dim=1)  # (n, duration, B, 4H)
            rows = grad_projected.flatten(1, 2)
            states = stretch.view_of(hidden)
            torch.bmm(rows, from_input[:n].mT, out=stretch.view_of(grad_inputs).flatten(1, 2))
            grad_from_input[:n].baddbmm_(stretch.view_of(inputs).flatten(1, 2).mT, rows)
            grad_bias[:n] += rows.sum(1)
            grad_from_state[:n].baddbmm_(states[:, :-1].flatten(1, 2).mT, rows[:, batch:])
            if number:
                last = stretches[number - 1].view_of(hidden)[:n, -1]
                grad_from_state[:n].baddbmm_(last.mT, grad_projected[:, 0])
        return grad_inputs, grad_from_input, grad_from_state, grad_bias, None


def _step(
    contribution: Tensor, state: Tensor, before: Tensor, recurrent: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute one time step of n LSTMs.

    Args:
        contribution: contribution of inputs and bias to the gates, (n, B, 4H).
        state: previous hidden state, (n, B, H).
        before: previous cell state, (n, B, H).
        recurrent: weights of the hidden state, (n, H, 4H).

    Returns:
        Hidden state and cell state, (n, B, H) each, and activations of the gates, (n, B, 4H).
    """
    if contribution.is_cuda:
        state, cell, activations = torch.ops.aten._thnn_fused_lstm_cell(
            contribution.flatten(0, 1),
            torch.bmm(state, recurrent).flatten(0, 1),
            before.flatten(0, 1),
        )
        return state.view_as(before), cell.view_as(before), activations.view_as(contribution)
    gates = torch.baddbmm(contribution, state, recurrent)
    i, f, g, o = gates.chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * before + i * g
    return o * cell.tanh(), cell, torch.cat((i, f, g, o), dim=-1)


def _step_back(
    grad_state: Tensor, grad_cell: Tensor, before: Tensor, cell: Tensor, activations: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates, (n, B, 4H), and of the previous cell state, (n, B, H)."""
    if grad_state.is_cuda:
        grad_gates, grad_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            *(part.flatten(0, 1) for part in (grad_state, grad_cell, before, cell, activations)),
            False,
        )
        return grad_gates.view_as(activations), grad_before.view_as(cell)
    i, f, g, o = activations.chunk(4, dim=-1)
    output = cell.tanh()
    grad_cell = grad_cell + grad_state * o * (1 - output.square())
    grad_gates = torch.cat(
        (
            grad_cell * g * i * (1 - i),
            grad_cell * before * f * (1 - f),
            grad_cell * i * (1 - g.square()),
            grad_state * output * o * (1 - o),
        ),
        dim=-1,
    )
    return grad_gates, grad_cell * f


class ReviewClassifier(nn.Module):
    """Embedding, bidirectional LSTM layers, and a linear score of the last hidden states.

    The size of the paper, 5,002 words of 50 dimensions and two layers of 128 units, has 829,941
    weights: 250,100 of the embedding, 579,584 of the LSTM and 257 of the score.

    Args:
        word_vectors: initial embedding of V words, (V, E).
        hidden: number of units H of a layer per direction.
        layers: number of LSTM layers.
        dropout: probability of dropout.
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
        """Compute the scores (B,) of reviews of token ids (B, T), padded at the end."""
        lengths = (tokens != PADDING).sum(1).cpu()
        embedded = self._drop(self.embedding(tokens.long()))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        last = torch.cat((state[-2], state[-1]), dim=1)
        scores: Tensor = self.score(self._drop(last))
        return scores[:, 0]

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Compute the scores (R, B) of token ids (R, B, T), with all copies in one recurrence."""
        lengths = (inputs != PADDING).sum(-1)  # (R, B)
        longest, order = lengths.amax(1).sort(descending=True, stable=True)
        # Longest first, so that the running copies are always the first ones.
        weights = {name: weight.index_select(0, order) for name, weight in weights.items()}
        indices = _ReviewIndices(lengths[order], longest.tolist())
        tokens = inputs.index_select(0, order).transpose(1, 2)  # (R, T, B)

        words = tokens[indices.words.sequence, indices.words.time]  # (N, B)
        states = self._drop(
            _embed(weights["embedding.weight"], words, indices.words.sequence)
        )  # (N, B, E)
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                states = self._drop(_gather(states, indices.joined))  # (N, B, 2H)
            states = lstm_layer(
                _gather(states, indices.order),
                indices.both.stretches,
                *_layer_weights(weights, layer),
            )  # (2N, B, H)
        ends = self._drop(_gather(states, indices.ends))  # (R, B, 2H)
        scores = torch.baddbmm(weights["score.bias"][:, None], ends, weights["score.weight"].mT)
        return scores[order.argsort(), :, 0]

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class _ReviewIndices:
    """Indices of the words of R batches and of the hidden states of both directions.

    Copies are sorted by the longest review of their batch, and N is the sum of these lengths. The
    backward direction starts at the last word of a review; padding keeps its place. Review b at a
    place has the index place · B + b.

    Attributes:
        words: packing of the words, one sequence per copy, N places.
        both: packing of the states, sequences 2r forward and 2r + 1 backward, 2N places.
        order: index of the word at each place of ``both``, (2N, B).
        joined: indices of the forward and the backward state of each word, (N, B, 2).
        ends: indices of the forward and the backward state after the last word, (R, B, 2).

    """

    def __init__(self, lengths: Tensor, longest: list[int]) -> None:
        """Compute indices for reviews of ``lengths`` (R, B) with descending ``longest`` (R,)."""
        self._last = lengths - 1
        self.words = Packing(longest, lengths.device)
        self.both = Packing([length for length in longest for _ in range(2)], lengths.device)

        copy, time = self.both.sequence // 2, self.both.time
        backward = (self.both.sequence % 2 == 1)[:, None]
        word = torch.where(backward, self._mirrored(copy, time), time[:, None])
        self.order = self._indices(self.words.place(copy[:, None], word))

        copy, time = self.words.sequence, self.words.time
        mirrored = self._mirrored(copy, time)
        forward = self.both.place(2 * copy, time)[:, None].expand_as(mirrored)
        back = self.both.place(2 * copy[:, None] + 1, mirrored)
        self.joined = torch.stack((self._indices(forward), self._indices(back)), dim=-1)

        copy = torch.arange(len(lengths), device=lengths.device)[:, None]
        forward, back = (self.both.place(2 * copy + d, self._last) for d in range(2))
        self.ends = torch.stack((self._indices(forward), self._indices(back)), dim=-1)

    def _mirrored(self, copy: Tensor, time: Tensor) -> Tensor:
        """Time counted back from the last word of a review, (n, B), for copies and times (n,)."""
        last, time = self._last[copy], time[:, None]
        return torch.where(time <= last, last - time, time)

    def _indices(self, place: Tensor) -> Tensor:
        """Indices of the B reviews at places (n, B)."""
        batch = place.shape[1]
        return place * batch + torch.arange(batch, device=place.device)


def _embed(vectors: Tensor, tokens: Tensor, copy: Tensor) -> Tensor:
    """Word vectors (N, B, E) of token ids (N, B), row n from table ``copy[n]`` of (R, V, E)."""
    rows = tokens.long() + vectors.shape[1] * copy[:, None]
    return functional.embedding(rows, vectors.flatten(0, 1))


def _gather(states: Tensor, index: Tensor) -> Tensor:
    """States (n, B, D) at indices (m, B, K) or (m, B), concatenated to (m, B, K · D)."""
    picked = states.flatten(0, 1).index_select(0, index.flatten())
    return picked.view(*index.shape[:2], -1)


def _layer_weights(weights: Weights, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of a layer with adjacent directions: (2R, D, 4H), (2R, H, 4H) and (2R, 4H)."""

    def both(name: str) -> Tensor:
        forward = weights[f"lstm.{name}_l{layer}"]
        backward = weights[f"lstm.{name}_l{layer}_reverse"]
        return torch.stack((forward, backward), dim=1).flatten(0, 1)

    return both("weight_ih").mT, both("weight_hh").mT, both("bias_ih") + both("bias_hh")
