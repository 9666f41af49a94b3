"""One layer of many independent LSTMs side by side, with its derivative written out.

That leaves one batched product per step in time on the way there and one on the way back; what the
inputs contribute, and the gradients of the weights, are a few large products. What lies between
the products moves memory only: on a GPU one fused kernel does it, the one behind ``nn.LSTMCell``.

Sequences are packed (:mod:`feduplink.federated.models.packing`), longest first: at every step only
those that have not ended are computed, and only they are remembered for the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from feduplink.federated.models.packing import Stretch


def lstm_layer(
    inputs: Tensor,
    stretches: Sequence[Stretch],
    from_input: Tensor,
    from_state: Tensor,
    bias: Tensor,
) -> Tensor:
    """Hidden states (N, B, H), packed, of M LSTMs that start from a zero state.

    Gates a_t = x_t W + h_{t−1} U + b with parts i, f, o (squashed by σ) and g (by tanh), in
    PyTorch's order i, f, g, o; c_t = f c_{t−1} + i g and h_t = o tanh(c_t).

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
        cells, squashed = [], []
        remember = any(ctx.needs_input_grad)
        for stretch in stretches:
            n = stretch.running
            projected = torch.baddbmm(
                bias[:n, None], stretch.view_of(inputs).flatten(1, 2), from_input[:n]
            ).view(n, stretch.duration, batch, 4 * size)
            recurrent, states = from_state[:n], []
            state, cell = state[:n], cell[:n]
            # Short steps wait for their kernels to be launched, so there are few of them: what a
            # whole stretch can do at once is not done step by step.
            for contribution in projected.transpose(0, 1).contiguous():
                state, cell, activation = _step(contribution, state, cell, recurrent)
                states.append(state)
                if remember:
                    cells.append(cell)
                    squashed.append(activation)
            torch.stack(states, dim=1, out=stretch.view_of(hidden))
        ctx.stretches = stretches
        ctx.save_for_backward(inputs, from_input, from_state, hidden, *cells, *squashed)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        inputs, from_input, from_state, hidden, *saved = ctx.saved_tensors
        stretches: Sequence[Stretch] = ctx.stretches
        cells, squashed = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        batch, size = hidden.shape[1:]
        to_state = from_state.mT.contiguous()
        grad_inputs = torch.empty_like(inputs)
        grad_from_input, grad_from_state = (
            torch.zeros_like(from_input),
            torch.zeros_like(from_state),
        )
        grad_bias = from_input.new_zeros(len(from_input), 4 * size)
        grad_gates = hidden.new_empty(0, batch, 4 * size)  # of the step after, in time
        grad_cell = hidden.new_empty(0, batch, size)
        for number, stretch in reversed(list(enumerate(stretches))):
            n, first = stretch.running, stretch.start
            # No gradient comes back from after a sequence's end.
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
                    grad_state, grad_cell, before, cells[now], squashed[now]
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
    """State and cell (n, B, H) after cell ``before``; and the squashed gates (n, B, 4H).

    The gates are the inputs' ``contribution`` (n, B, 4H) and that of the last ``state`` (n, B, H)
    by the ``recurrent`` weights (n, H, 4H).
    """
    if contribution.is_cuda:
        state, cell, squashed = torch.ops.aten._thnn_fused_lstm_cell(
            contribution.flatten(0, 1),
            torch.bmm(state, recurrent).flatten(0, 1),
            before.flatten(0, 1),
        )
        return state.view_as(before), cell.view_as(before), squashed.view_as(contribution)
    gates = torch.baddbmm(contribution, state, recurrent)
    i, f, g, o = gates.chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * before + i * g
    return o * cell.tanh(), cell, torch.cat((i, f, g, o), dim=-1)


def _step_back(
    grad_state: Tensor, grad_cell: Tensor, before: Tensor, cell: Tensor, squashed: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates (n, B, 4H) and of the cell before (n, B, H)."""
    if grad_state.is_cuda:
        grad_gates, grad_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            *(part.flatten(0, 1) for part in (grad_state, grad_cell, before, cell, squashed)),
            False,
        )
        return grad_gates.view_as(squashed), grad_before.view_as(cell)
    i, f, g, o = squashed.chunk(4, dim=-1)
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
