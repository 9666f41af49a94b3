"""Sentiment network: word vectors and a bidirectional LSTM, many models side by side.

An LSTM is bound by latency: it computes hundreds of small products one after the other. Therefore
the models of all workers and simulations, and both directions, share one recurrence: a batched
product per step in time in the forward pass, and one in the backward pass. The contributions of
the inputs and the gradients of the weights are a few large products. The element-wise operations
between the products are a fused kernel on a GPU, the one of ``nn.LSTMCell``.

Sequences are packed, longest first: a step computes and saves only those that have not ended.

PyTorch's LSTM takes 2 to 6 times as long when it is called per worker (``docs/notes/lstm.md``).
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

#: Maximum number of steps of a stretch. It bounds the memory of products over a whole stretch, and
#: is large enough for their efficiency on a GPU.
_MAX_STEPS = 32


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps in time with the same running sequences.

    Attributes:
        start: first step in time.
        duration: number of steps.
        running: number of sequences that have not ended, which are the first ones.
        place: first place of the stretch in a packed tensor.

    """

    start: int
    duration: int
    running: int
    place: int

    def view_of(self, packed: Tensor) -> Tensor:
        """Return a view of the stretch in ``packed`` (N, ...): (running, duration, ...)."""
        part = packed[self.place : self.place + self.running * self.duration]
        return part.view(self.running, self.duration, *packed.shape[1:])


class Packing:
    """Packing of M sequences of falling length in N = Σ lengths places, stretch by stretch.

    The steps of a sequence in a stretch are neighbours, so that a product with a matrix per
    sequence is one batched product. A sequence that has ended takes neither memory nor time.

    Attributes:
        stretches: in the order of time, which is also that of memory.
        sequence: at a place, (N,) int64.
        time: step of that sequence, (N,) int64.

    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.stretches = _stretches(lengths)
        sequences, times = [], []
        first = np.zeros(lengths[0], np.int64)  # place of a step of sequence 0, by time
        apart = np.zeros(lengths[0], np.int64)  # places from one sequence to the next, by time
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
        """Return the places of steps ``time`` of ``sequence``, int64 of shapes that broadcast."""
        return self._first[time] + sequence * self._apart[time]


def _stretches(lengths: Sequence[int]) -> list[Stretch]:
    """Split the time at the ends of sequences and at multiples of :data:`_MAX_STEPS` steps."""
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
    """Compute hidden states (N, B, H), packed, of M LSTMs with zero initial states.

    The gates x_t W + h_{t−1} U + b have parts i, f, g, o in PyTorch's order, with activation tanh
    for g and σ for the others; c_t = f c_{t−1} + i g and h_t = o tanh(c_t).

    Args:
        inputs: x, (N, B, D), packed: B sequences per LSTM, of one length.
        stretches: of the packing.
        from_input: W, (M, D, 4H).
        from_state: U, (M, H, 4H).
        bias: b, (M, 4H).
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
            # The launch of kernels dominates the time of a step, so that a step has few of them.
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
        grad_gates = hidden.new_empty(0, batch, 4 * size)  # of the step after, in time
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
    """Make a step: state and cell (n, B, H), and the activations of the gates (n, B, 4H).

    The gates are the sum of the inputs' ``contribution`` (n, B, 4H) and the product of the last
    ``state`` (n, B, H) and the ``recurrent`` weights (n, H, 4H); ``before`` is the last cell.
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
    """Gradients of the gates (n, B, 4H) and of the last cell (n, B, H)."""
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
    """Embedding, bidirectional LSTM layers, and a linear score of their last states.

    With 5,002 words of 50 dimensions and two layers of 128 units it has 829,941 weights: 250,100 of
    the embedding, 579,584 of the LSTM and 257 of the score.
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
        """Return scores (B,) of reviews (B, T) of token ids, padded at the end."""
        lengths = (tokens != PADDING).sum(1).cpu()
        embedded = self._drop(self.embedding(tokens.long()))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        last = torch.cat((state[-2], state[-1]), dim=1)
        scores: Tensor = self.score(self._drop(last))
        return scores[:, 0]

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Return scores (R, B) of token ids (R, B, T), all copies in one recurrence."""
        lengths = (inputs != PADDING).sum(-1)  # (R, B)
        longest, order = lengths.amax(1).sort(descending=True, stable=True)
        # Longest first, so that the running copies are the first ones at any time.
        weights = {name: weight.index_select(0, order) for name, weight in weights.items()}
        reading = _Reading(lengths[order], longest.tolist())
        tokens = inputs.index_select(0, order).transpose(1, 2)  # (R, T, B)

        words = tokens[reading.words.sequence, reading.words.time]  # (N, B)
        states = self._drop(
            _embed(weights["embedding.weight"], words, reading.words.sequence)
        )  # (N, B, E)
        for layer in range(self.lstm.num_layers):
            if layer > 0:
                states = self._drop(_gather(states, reading.joined))  # (N, B, 2H)
            states = lstm_layer(
                _gather(states, reading.order),
                reading.both.stretches,
                *_layer_weights(weights, layer),
            )  # (2N, B, H)
        ends = self._drop(_gather(states, reading.ends))  # (R, B, 2H)
        scores = torch.baddbmm(weights["score.bias"][:, None], ends, weights["score.weight"].mT)
        return scores[order.argsort(), :, 0]

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class _Reading:
    """Indices of the words of R batches and of the states of both directions.

    Copies are sorted by the longest review of their batch; N is the sum of those lengths. The
    backward direction starts at a review's last word, and padding stays in place.

    Attributes:
        words: packing of the words, a sequence per copy, N places.
        both: packing of the states, sequences 2r forward and 2r + 1 backward, 2N places.
        order: index of the word that is read at a place of ``both``, (2N, B).
        joined: indices of the forward and the backward state of a word, (N, B, 2).
        ends: indices of the forward and the backward state after the last word, (R, B, 2).

    Index place · B + b is review b at a place.

    """

    def __init__(self, lengths: Tensor, longest: list[int]) -> None:
        """Index reviews of ``lengths`` (R, B); the ``longest`` of each batch fall."""
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
        """Time counted from the last word of a review, (n, B), of copies and times (n,)."""
        last, time = self._last[copy], time[:, None]
        return torch.where(time <= last, last - time, time)

    def _each(self, place: Tensor) -> Tensor:
        """Indices of the B reviews at their places, (n, B)."""
        batch = place.shape[1]
        return place * batch + torch.arange(batch, device=place.device)


def _embed(vectors: Tensor, tokens: Tensor, copy: Tensor) -> Tensor:
    """Look up ids (N, B), row n in table ``copy[n]`` of (R, V, E): (N, B, E)."""
    rows = tokens.long() + vectors.shape[1] * copy[:, None]
    return functional.embedding(rows, vectors.flatten(0, 1))


def _gather(states: Tensor, index: Tensor) -> Tensor:
    """States (n, B, D) at ``index`` (m, B, ...), joined along the last axis: (m, B, … · D)."""
    picked = states.flatten(0, 1).index_select(0, index.flatten())
    return picked.view(*index.shape[:2], -1)


def _layer_weights(weights: Weights, layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of a layer, directions of a copy side by side: (2R, D, 4H), (2R, H, 4H), (2R, 4H)."""

    def both(name: str) -> Tensor:
        forward = weights[f"lstm.{name}_l{layer}"]
        backward = weights[f"lstm.{name}_l{layer}_reverse"]
        return torch.stack((forward, backward), dim=1).flatten(0, 1)

    return both("weight_ih").mT, both("weight_hh").mT, both("bias_ih") + both("bias_hh")
