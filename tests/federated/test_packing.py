from __future__ import annotations

import pytest
import torch

from feduplink.federated.models.lstm import Packing

CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", [[1], [5, 5, 5], [100, 33, 32, 32, 1], [3, 2, 1]])
def test_every_step_of_every_sequence_has_a_place_of_its_own(lengths: list[int]):
    packing = Packing(lengths, CPU)
    expected = {(m, t) for m, length in enumerate(lengths) for t in range(length)}
    found = list(zip(packing.sequence.tolist(), packing.time.tolist(), strict=True))
    assert len(found) == sum(lengths)
    assert set(found) == expected
    places = packing.place(packing.sequence, packing.time)
    assert places.tolist() == list(range(sum(lengths)))


def test_a_stretch_holds_the_sequences_that_run_and_their_steps():
    packing = Packing([40, 3, 3], CPU)
    pairs = torch.stack((packing.sequence, packing.time), dim=-1)
    seen = []
    for stretch in packing.stretches:
        part = stretch.view_of(pairs)
        assert part.shape == (stretch.running, stretch.duration, 2)
        assert part[:, :, 0].eq(torch.arange(stretch.running)[:, None]).all()
        assert part[:, :, 1].eq(stretch.start + torch.arange(stretch.duration)).all()
        seen.append((stretch.start, stretch.duration, stretch.running))
    assert seen == [(0, 3, 3), (3, 29, 1), (32, 8, 1)]
