"""Processor time of exported policies, measured in turns, and their ratio.

    python benchmarks/onnx_side_by_side.py runs/export-pdg/policy.onnx runs/export-pdx/policy.onnx

For every ONNX file, with channels of 8 workers at the default setting: median and 99th percentile
of the processor time of a call with one channel, over 2,400 calls in blocks of 40; the ratio of the
median to that of the first file; and the median per channel in calls with 64 and 1,000 channels.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

from feduplink import Scenario, draw_csi
from feduplink.export import OnnxPolicy

BLOCKS, BLOCK, LARGE_CALLS = 60, 40, 8


def processor_seconds(policies: list[OnnxPolicy], csi: np.ndarray, blocks: int, block: int) -> list:
    """Processor time of every call but the first of a block, whose data are not cached, s."""
    seconds: list[list[float]] = [[] for _ in policies]
    for _ in range(blocks):
        for policy, found in zip(policies, seconds, strict=True):
            policy.run(csi)
            for _ in range(block):
                begun = time.thread_time()
                policy.run(csi)
                found.append(time.thread_time() - begun)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="ONNX files of 'feduplink export'")
    files = parser.parse_args().files
    policies = [OnnxPolicy(file) for file in files]
    drawn = draw_csi(Scenario(workers=8), 1000, torch.Generator().manual_seed(0)).numpy()
    single = processor_seconds(policies, drawn[:1].copy(), BLOCKS, BLOCK)
    per_channel = [
        [np.median(found) / count for found in processor_seconds(policies, drawn[:count], calls, 1)]
        for count, calls in ((64, 8 * LARGE_CALLS), (1000, LARGE_CALLS))
    ]
    print("| file | median, µs | 99 %, µs | ratio | per channel of 64, µs | of 1000, µs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for file, found, few, many in zip(files, single, *per_channel, strict=True):
        median, tail = 1e6 * np.percentile(found, [50, 99])
        ratio = median / (1e6 * np.median(single[0]))
        print(
            f"| {file} | {median:.0f} | {tail:.0f} | {ratio:.1f} | {1e6 * few:.0f} "
            f"| {1e6 * many:.0f} |"
        )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
