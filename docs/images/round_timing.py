"""Draws round-timing.svg: the phases of one round in which workers finish one after the other."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import torch

from feduplink import link

#: Gains of three workers relative to the noise, 1/W; rows: receive filter, columns: transmitter.
_CSI = torch.tensor(
    [[8.0e3, 9.0e2, 3.0e2], [1.1e3, 2.5e3, 2.0e2], [7.0e2, 5.0e2, 6.0e2]], dtype=torch.float64
)
_POWER = torch.full((3,), 0.01, dtype=torch.float64)
_BITS = 1.27e6
_BANDWIDTH_HZ = 180e3
_COLOURS = ("#005a9c", "#b03a00", "#3a7a1e")


def main() -> None:
    """Draw it beside this file."""
    upload = link.simultaneous_upload(_CSI, _POWER, _BITS, _BANDWIDTH_HZ)
    ends = upload.airtime_s.tolist()
    order = sorted(range(3), key=lambda worker: ends[worker])
    starts = [0.0, *(ends[worker] for worker in order[:-1])]
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "feduplink", "font.size": 11}):
        figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
        active = list(order)
        for phase, (start, finished) in enumerate(zip(starts, order, strict=True), 1):
            end = ends[finished]
            senders = torch.zeros(3, dtype=torch.float64)
            senders[active] = _POWER[active]
            rates = _BANDWIDTH_HZ * torch.log2(1 + link.sinr(_CSI, senders)) / 1e3
            for worker in active:
                axes.barh(
                    worker, end - start, left=start, color=_COLOURS[worker], edgecolor="white"
                )
                axes.text(
                    (start + end) / 2,
                    worker,
                    f"{rates[worker]:.0f} kbit/s",
                    ha="center",
                    va="center",
                    color="white",
                )
            axes.axvline(end, color="#555555", linestyle=":", linewidth=1)
            axes.text((start + end) / 2, -0.62, f"phase {phase}", ha="center", va="center")
            active.remove(finished)
        axes.set_yticks(range(3), [f"worker {worker + 1}" for worker in range(3)])
        axes.set_ylim(2.6, -0.85)
        axes.set_xlim(0, max(ends) * 1.01)
        axes.set_xlabel("time since the start of the uplink, s")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(Path(__file__).with_name("round-timing.svg"), metadata={"Date": None})
    print([f"{end:.2f}" for end in ends])


if __name__ == "__main__":
    main()
