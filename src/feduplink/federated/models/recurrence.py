"""The recurrence of many independent LSTMs side by side, with its derivative written out.

That leaves one batched product a token on the way there and one on the way back, and the gradient
of the recurrent weights as one large product at the end. What lies between the products moves
memory only: on a GPU one fused kernel does it, the one behind ``nn.LSTMCell``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def recur(projected: Tensor, recurrent: Tensor) -> Tensor:
    """Hidden states (M, T, B, H) of M LSTMs that start from a zero state.

    Gates a_t = x_t + h_{t−1} U with parts i, f, o (squashed by σ) and g (by tanh), in PyTorch's
    order i, f, g, o; c_t = f c_{t−1} + i g and h_t = o tanh(c_t).

    Args:
        projected: x, (M, T, B, 4H).
        recurrent: U, (M, H, 4H).
    """
    states: Tensor = _Recurrence.apply(projected, recurrent)  # type: ignore[no-untyped-call]
    return states


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, recurrent: Tensor) -> Tensor:
        rows, length, batch, width = projected.shape
        hidden = projected.new_empty(rows, length, batch, width // 4)
        cell = projected.new_zeros(rows * batch, width // 4)
        gates = projected[:, 0].contiguous()
        cells, squashed = [], []
        remember = any(ctx.needs_input_grad)
        for t in range(length):
            if t > 0:
                gates = torch.baddbmm(projected[:, t], hidden[:, t - 1], recurrent)
            state, cell, activation = _step(gates.view(rows * batch, width), cell)
            hidden[:, t] = state.view(rows, batch, -1)
            if remember:
                cells.append(cell)
                squashed.append(activation)
        ctx.save_for_backward(hidden, recurrent, *cells, *squashed)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden, recurrent, *saved = ctx.saved_tensors
        rows, length, batch, size = hidden.shape
        cells, squashed = saved[:length], saved[length:]
        back = recurrent.mT.contiguous()
        grad_projected = hidden.new_empty(rows, length, batch, 4 * size)
        grad_cell = torch.zeros_like(cells[0])
        before_first = torch.zeros_like(cells[0])
        grad_state = grad_hidden[:, -1].contiguous()
        for t in reversed(range(length)):
            before = cells[t - 1] if t > 0 else before_first
            grad_gates, grad_cell = _step_back(
                grad_state.view(rows * batch, size), grad_cell, before, cells[t], squashed[t]
            )
            grad_gates = grad_gates.view(rows, batch, 4 * size)
            grad_projected[:, t] = grad_gates
            if t > 0:
                grad_state = torch.baddbmm(grad_hidden[:, t - 1], grad_gates, back)
        grad_recurrent = torch.bmm(
            hidden[:, :-1].reshape(rows, (length - 1) * batch, size).mT,
            grad_projected[:, 1:].reshape(rows, (length - 1) * batch, 4 * size),
        )
        return grad_projected, grad_recurrent


def _step(gates: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """State and cell (N, H) after gates (N, 4H) and cell ``before``; and the squashed gates."""
    if gates.is_cuda:
        # The kernel adds two contributions to the gates; the product has already joined them.
        nothing = gates.new_zeros(1, 1).expand_as(gates)
        state, cell, squashed = torch.ops.aten._thnn_fused_lstm_cell(gates, nothing, before)
        return state, cell, squashed
    i, f, g, o = gates.chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cell = f * before + i * g
    return o * cell.tanh(), cell, torch.cat((i, f, g, o), dim=1)


def _step_back(
    grad_state: Tensor, grad_cell: Tensor, before: Tensor, cell: Tensor, squashed: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates (N, 4H) and of the cell before (N, H)."""
    if grad_state.is_cuda:
        grad_gates, grad_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            grad_state, grad_cell, before, cell, squashed, False
        )
        return grad_gates, grad_before
    i, f, g, o = squashed.chunk(4, dim=1)
    output = cell.tanh()
    grad_cell = grad_cell + grad_state * o * (1 - output.square())
    grad_gates = torch.cat(
        (
            grad_cell * g * i * (1 - i),
            grad_cell * before * f * (1 - f),
            grad_cell * i * (1 - g.square()),
            grad_state * output * o * (1 - o),
        ),
        dim=1,
    )
    return grad_gates, grad_cell * f
