"""Latency and throughput of an allocation: in the process, through HTTP, in batches, under load.

    feduplink export --policy pdx --out runs/export-pdx
    python benchmarks/serving.py runs/export-pdx/policy.onnx --seconds 60

For every ONNX file, with channels of 8 workers at the default setting: latency of one allocation
in the process and through HTTP over one connection, with the parts of the latter; throughput in
batches of 1000 channels; latency, failures and memory under a load of 16 connections from a second
process. The service is a process of its own, and this program its client. The load average is
printed because other processes on the machine change the results.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from feduplink import Scenario, draw_csi
from feduplink.export import OnnxPolicy
from feduplink.serving import Limits
from feduplink.serving.app import create_app
from feduplink.serving.batching import DynamicBatcher
from feduplink.serving.payloads import csi_from_bytes, csi_from_json

WORKERS, BATCH, CONNECTIONS = 8, 1000, 16
BINARY = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}
PATH = f"/v1/allocate?workers={WORKERS}"


def timed(
    call: Callable[[], object], repetitions: int, clock: Callable[[], float] = time.perf_counter
) -> np.ndarray:
    """Time of every call without the first tenth, s."""
    seconds = np.empty(repetitions)
    for repetition in range(repetitions):
        begun = clock()
        call()
        seconds[repetition] = clock() - begun
    return seconds[repetitions // 10 :]


async def timed_async(call: Callable, repetitions: int) -> np.ndarray:
    seconds = np.empty(repetitions)
    for repetition in range(repetitions):
        begun = time.perf_counter()
        await call()
        seconds[repetition] = time.perf_counter() - begun
    return seconds[repetitions // 10 :]


def row(title: str, seconds: np.ndarray) -> None:
    median, tail = np.percentile(seconds, [50, 99])
    print(f"| {title} | {1e6 * median:.0f} | {1e6 * tail:.0f} |", flush=True)


@dataclass(frozen=True)
class Service:
    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def resident_bytes(self) -> float:
        connection = self.connect()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return float(re.search(r"^process_resident_memory_bytes (\S+)$", text, re.MULTILINE)[1])


@contextmanager
def service(file: Path) -> Iterator[Service]:
    command = [sys.executable, "-m", "feduplink", "serve", "--policy", str(file), "--port", "0"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Service(int(process.stdout.readline().rsplit(":", 1)[1]))
        finally:
            process.terminate()
            process.communicate()


def through_http(connection: http.client.HTTPConnection, body: bytes, headers: dict) -> None:
    connection.request("POST", PATH, body, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200


def through_asgi(policy: OnnxPolicy, body: bytes) -> np.ndarray:
    """The application without a socket."""
    app = create_app(policy)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/allocate",
        "query_string": f"workers={WORKERS}".encode(),
        "headers": [(b"content-type", b"application/octet-stream")],
    }

    async def receive() -> dict:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict) -> None:
        assert message.get("status", 200) == 200

    return asyncio.run(timed_async(lambda: app(dict(scope), receive, send), 2000))


def in_a_thread(policy: OnnxPolicy, csi: np.ndarray) -> np.ndarray:
    batcher = DynamicBatcher(policy.run, lambda *_: None)
    return asyncio.run(timed_async(lambda: batcher.allocate(csi), 2000))


def load(port: int, body: bytes, seconds: float, results: multiprocessing.Queue) -> None:
    """Send requests over all connections, one after the other; puts latencies and failures."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    latencies: list[float] = []
    failures: list[str] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            try:
                writer.write(request)
                header = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"content-length: (\d+)", header)[1])
                await reader.readexactly(length)
            except (OSError, asyncio.IncompleteReadError) as error:
                failures.append(repr(error))
                return
            latencies.append(time.perf_counter() - begun)
            if not header.startswith(b"HTTP/1.1 200") or length != 4 * WORKERS:
                failures.append(header.split(b"\r\n")[0].decode())
        writer.close()

    async def clients() -> None:
        await asyncio.gather(*(client() for _ in range(CONNECTIONS)))

    asyncio.run(clients())
    results.put((np.array(latencies), failures))


def loaded(service: Service, body: bytes, seconds: float) -> tuple[np.ndarray, list[str]]:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=load, args=(service.port, body, seconds, results))
    process.start()
    latencies, failures = results.get()
    process.join()
    return latencies, failures


def measure(file: Path, seconds: float) -> None:
    policy = OnnxPolicy(file)
    drawn = draw_csi(Scenario(workers=WORKERS), BATCH, torch.Generator().manual_seed(0))
    many = drawn.numpy().astype("<f4")
    one = many[:1].copy()
    binary, limits = one.tobytes(), Limits()
    text = f'{{"csi": {one[0].tolist()}}}'.encode()
    print(
        f"\n## {policy.metadata['policy']}\n\n| one channel of {WORKERS} | median, µs | 99 %, µs |"
    )
    print("| --- | ---: | ---: |")
    row("computation, in the process", timed(lambda: policy.run(one), 5000))
    # Processor time does not contain waiting for a processor.
    row("the same, processor time", timed(lambda: policy.run(one), 5000, time.thread_time))
    row("parsing CSI, binary", timed(lambda: csi_from_bytes(binary, WORKERS, limits), 5000))
    row("parsing CSI, JSON", timed(lambda: csi_from_json(text, WORKERS, limits), 5000))
    row("computation in the thread", in_a_thread(policy, one))
    row("the application, without a socket", through_asgi(policy, binary))
    with service(file) as running:
        # In its first seconds the service also tunes the playground's first setting.
        loaded(running, binary, 5)
        connection = running.connect()
        row("HTTP, binary", timed(lambda: through_http(connection, binary, BINARY), 3000))
        row("HTTP, JSON", timed(lambda: through_http(connection, text, JSON), 3000))
        inside = timed(lambda: policy.run(many), 20)
        outside = timed(lambda: through_http(connection, many.tobytes(), BINARY), 20)
        print(
            f"\nAt {BATCH} channels per request: {BATCH / np.median(inside):.0f} per second in the "
            f"process, {BATCH / np.median(outside):.0f} through HTTP."
        )
        before = running.resident_bytes()
        latencies, failures = loaded(running, binary, seconds)
        after = running.resident_bytes()
    median, tail, longest = 1e3 * np.percentile(latencies, [50, 99, 100])
    print(
        f"\n{seconds:g} s of load over {CONNECTIONS} connections: {len(latencies)} requests, "
        f"{len(failures)} failed, {len(latencies) / seconds:.0f} per second; median {median:.1f}, "
        f"99 % {tail:.1f}, longest {longest:.0f} ms; memory {before / 2**20:.1f} MiB before, "
        f"{after / 2**20:.1f} MiB after.\n",
        flush=True,
    )
    for failure in failures[:5]:
        print(failure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="ONNX files of 'feduplink export'")
    parser.add_argument("--seconds", type=float, default=60, help="duration of the load, in s")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for file in options.files:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        measure(file, options.seconds)
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
