"""Run the jobs of ``same_results.py`` and keep what they write, print and answer."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import platform
import re
import resource
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from same_results_jobs import JOBS, Job, Request

#: One thread, and instructions that most processors have: the same bits on as many as possible.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "MPLBACKEND": "agg",
    "COLUMNS": "120",
    "PYTHONUNBUFFERED": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
#: Exit status of a refused command line.
_REFUSED = 2
_ANSWER_TIMEOUT_S = 600.0


def run(directory: Path, names: Iterable[str]) -> int:
    """Run the jobs of these names, or all; returns the number of those that failed."""
    chosen = list(names)
    unknown = set(chosen) - {job.name for job in JOBS}
    if unknown:
        sys.exit(f"unknown jobs: {', '.join(sorted(unknown))}")
    directory.mkdir(parents=True, exist_ok=True)
    # Multipliers of other runs must not be found.
    environment = {**job_environment(), "FEDUPLINK_CACHE": str((directory / "cache").absolute())}
    write_json(directory / "versions.json", _versions())
    failed = 0
    for job in JOBS:
        if chosen and job.name not in chosen:
            continue
        missing = [name for name in job.needs if name not in environment]
        if missing:
            print(f"{job.name}: left out, needs {', '.join(missing)}", flush=True)
            continue
        if (directory / job.name).exists():
            sys.exit(f"{directory / job.name} exists; remove it or use another directory")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        status = run_job(job, directory, environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds = {"cpu": round(used, 1), "wall": round(time.monotonic() - began, 1)}
        write_json(
            directory / f"{job.name}.job.json",
            {"line": job.line, "status": status, "seconds": seconds},
        )
        failed += status != 0
        ended = "" if status == 0 else f", FAILED with status {status}"
        print(
            f"{job.name}: {used:.1f} s of CPU, {seconds['wall']:.0f} s{ended}\n"
            f"    feduplink {job.line}",
            flush=True,
        )
    return failed


def job_environment() -> dict[str, str]:
    """The environment of the jobs, with the examples of the version that is measured."""
    environment = {**os.environ, **_ENVIRONMENT}
    given = os.environ.get("PYTHONPATH", "")
    paths = [str(Path(part).absolute()) for part in given.split(os.pathsep) if part]
    found = importlib.util.find_spec("feduplink")
    assert found is not None and found.origin is not None
    examples = Path(found.origin).parents[2] / "examples"
    environment["PYTHONPATH"] = os.pathsep.join([*paths, str(examples)])
    return environment


def _versions() -> dict[str, str | None]:
    from importlib import metadata

    names = ("torch", "numpy", "scipy", "h5py", "onnxruntime", "matplotlib", "flwr", "sionna-no-rt")
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    processor = ""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8")
        processor = next(line for line in text.splitlines() if "model name" in line)
    return {**versions, "processor": processor.rpartition(":")[2].strip()}


def run_job(job: Job, directory: Path, environment: Mapping[str, str]) -> int:
    """Run a job; returns the exit status. What it prints is kept beside its directory."""
    status = 0
    for line in (job.line, *job.instead):
        words = shlex.split(line)
        if job.out:
            # What sweep runs stands behind its own options.
            place = words.index("--") if "--" in words else len(words)
            words[place:place] = ["--out", job.name]
        start = ["-c", job.program] if job.program else ["-m", "feduplink"]
        command = [sys.executable, *start, *words]
        with (
            (directory / f"{job.name}.stdout").open("w", encoding="utf-8") as out,
            (directory / f"{job.name}.stderr").open("w", encoding="utf-8") as err,
        ):
            if job.requests:
                status = _serve(job, command, directory, environment, out, err)
            else:
                status = _execute(job, command, directory, environment, out, err)
        if status != _REFUSED:
            break
    return status


def _execute(
    job: Job,
    command: list[str],
    directory: Path,
    environment: Mapping[str, str],
    out: IO[str],
    err: IO[str],
) -> int:
    """Run a command to its end, killed and resumed on the way if the job says so."""

    def started(words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, cwd=directory, env=dict(environment), stdout=out, stderr=err)

    process = started(command)
    if not job.interrupted_at:
        return process.wait()
    checkpoint = directory / job.name / job.interrupted_at
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    return started([*command, "--resume"]).wait()


def _serve(
    job: Job,
    command: list[str],
    directory: Path,
    environment: Mapping[str, str],
    out: IO[str],
    err: IO[str],
) -> int:
    """Start a service, keep its answers to the requests of the job, and stop it."""
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=err,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = None
        while address is None and (line := process.stdout.readline()):
            out.write(re.sub(r":\d+$", ":PORT", line))
            address = re.search(r"//([\w.]+):(\d+)", line)
        if address is None:
            return process.wait() or 1
        answers = directory / job.name
        answers.mkdir()
        for number, request in enumerate(job.requests):
            answer = _answer(address[1], int(address[2]), request)
            write_json(answers / f"{number:02}-{request.name}.json", answer)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    return 0 if process.returncode in (0, -signal.SIGTERM) else process.returncode


def _answer(host: str, port: int, request: Request) -> dict[str, Any]:
    """Status, content type and body of the answer to a request."""
    sent, headers = b"", {}
    if isinstance(request.body, bytes):
        sent = request.body
        headers = {"Content-Type": "application/octet-stream" if len(sent) > 1 else "text/plain"}
    elif request.body is not None:
        sent, headers = json.dumps(request.body).encode(), {"Content-Type": "application/json"}
    end = time.monotonic() + _ANSWER_TIMEOUT_S
    while True:
        connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_TIMEOUT_S)
        connection.request("GET" if request.body is None else "POST", request.path, sent, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        kind = response.getheader("content-type", "")
        body: Any
        if kind.startswith("application/json"):
            body = json.loads(content)
            pending = request.until_false and _field(body, request.until_false)
            if pending and time.monotonic() < end:
                time.sleep(0.5)
                continue
        elif kind.startswith("application/octet-stream"):
            body = list(struct.unpack(f"<{len(content) // 4}f", content))
        else:
            body = request.kept(content.decode())
        return {"status": response.status, "type": kind, "body": body}


def _field(content: Any, name: str) -> Any:
    """The first field of this name anywhere in nested objects, or None."""
    if isinstance(content, dict):
        if name in content:
            return content[name]
        content = list(content.values())
    if isinstance(content, list):
        return next((found for item in content if (found := _field(item, name)) is not None), None)
    return None


def write_json(path: Path, content: Any) -> None:
    """Write an object as indented JSON."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
