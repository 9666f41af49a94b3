"""Every format that feduplink reads, with a file of it that is whole and the way it is read."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import lzma
import math
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.io import savemat

from feduplink import Scenario, Trainer, draw_csi, make_trainer
from feduplink.channels import Realisations, make_channels, read_channels, write_channels
from feduplink.federated import Federation, FederationSettings, LocalWork
from feduplink.federated.data.reviews import read_reviews
from feduplink.federated.tasks import (
    airquality as airquality_task,
)
from feduplink.federated.tasks import (
    images as mnist_task,
)
from feduplink.federated.tasks import (
    reviews as imdb_task,
)
from feduplink.policies import Ideal, load_policy, save_policy, shipped_pdx
from feduplink.proofs import read_proof, write_proof
from feduplink.reporting.page import read_csv_tables, read_figures, read_markdown
from feduplink.reporting.style import figure, save_figure
from feduplink.serving import Limits
from feduplink.serving.payloads import csi_from_bytes, csi_from_json
from feduplink.storage.run_directory import read_metrics, write_metrics


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: of it.
        file: name of the file; some readers go by it.
        content: of a file that is whole.
        read: gives what the file in a directory says, as something that can be compared.
        is_valid: whether what was read may be in such a file; None: only what was written may.
    """

    name: str
    file: str
    content: bytes
    read: Callable[[Path], Any]
    is_valid: Callable[[Any], bool] | None = None


def _same(tensors: dict[str, torch.Tensor]) -> Any:
    return {name: (str(t.dtype), tuple(t.shape), t.tolist()) for name, t in tensors.items()}


def _written(write: Callable[[Path], object], file: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory))
        return Path(directory, file).read_bytes()


def _trainer() -> Trainer[Any]:
    scenario = Scenario(workers=3)
    channels = make_channels(scenario, 10)
    return make_trainer("pdg", scenario, channels, epochs=2, batch_size=10)


def _resumed(path: Path) -> Any:
    trainer = _trainer()
    trainer.resume(path / "checkpoint.safetensors")
    return trainer.history, _same(trainer.trained().state_dict())


def _federation() -> Federation:
    from federated.conftest import blob_task

    return Federation(
        blob_task(LocalWork(batch_size=5)),
        {"ideal": Ideal(Scenario())},
        Scenario(workers=3),
        FederationSettings(rounds=3),
    )


def _federation_resumed(path: Path) -> Any:
    federation = _federation()
    federation.resume(path / "federated.safetensors")
    return federation.history(), _same(federation.state.weights)


def _metrics(path: Path) -> None:
    content = {"title": "A run", "seed": 1, "runs_s": 2.5, "scenario": Scenario().model_dump()}
    claim = {"claim": "it holds", "measured": "1", "verdict": "holds"}
    write_metrics(path, {**content, "claims": [claim]})


def _drawing(path: Path) -> None:
    with figure(4, 2, "What there is to see") as drawn:
        axes = drawn.subplots()
        axes.plot([1, 2, 3])
    save_figure(path / "a.png", drawn)


def _idx(values: np.ndarray[Any, Any]) -> bytes:
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return gzip.compress(header + values.astype(np.uint8).tobytes())


def _npz() -> bytes:
    packed = io.BytesIO()
    vectors = np.random.default_rng(0).normal(size=(20, 50)).astype(np.float16)
    words = np.frombuffer("\n".join(f"word{n}" for n in range(20)).encode(), np.uint8)
    np.savez_compressed(packed, vectors=vectors, in_glove=np.ones(20, np.bool_), tokens=words)
    return packed.getvalue()


def _readings() -> bytes:
    columns = ("Date", *airquality_task.FEATURES, airquality_task.TARGET)
    rows = [["1", *(f"{n + k},5" for k in range(9))] for n in range(30)]
    return ("\n".join(";".join(row) for row in [columns, *rows]) + "\n").encode()


def _reviews() -> bytes:
    rows = "".join(f'train,{n % 2},{n},7,"It was, well, number {n}."\n' for n in range(40))
    return lzma.compress(f"split,label,id,rating,text\n{rows}".encode())


def _word_vectors(path: Path) -> Any:
    words, vectors, known = imdb_task.read_word_vectors(path / "vectors.npz", 10)
    return words, vectors.tolist(), known.tolist()


def _is_readings(found: Any) -> bool:
    return all(math.isfinite(value) for row in found[0] for value in row)


def _is_csi(found: Any) -> bool:
    gains = np.asarray(found)
    return bool(gains.ndim in (2, 3) and (gains > 0).all() and np.isfinite(gains).all())


def _channels_of_others(csi: np.ndarray[Any, Any]) -> list[Format]:
    """Channels as NumPy, SciPy and MATLAB write them, beside another array."""
    from channels.test_files_of_others import save_v73

    writers: dict[str, Callable[[Path], object]] = {
        "a.npz": lambda p: np.savez_compressed(p, H=csi, x=np.ones(3)),
        "a.npy": lambda p: np.save(p, csi),
        "v5.mat": lambda p: savemat(p, {"H": csi, "x": np.ones(3)}),
        "v7.mat": lambda p: savemat(p, {"H": csi, "x": np.ones(3)}, do_compression=True),
        "v73.mat": lambda p: save_v73(p, H=csi, x=np.ones(3)),
    }
    return [
        Format(
            f"channels in {name}",
            name,
            _written(lambda p, name=name: writers[name](p / name), name),  # type: ignore[misc]
            lambda p, name=name: read_channels(p / name).csi.tolist(),  # type: ignore[misc]
            _is_csi,
        )
        for name in writers
    ]


def _flower() -> list[Format]:
    """The result of a Flower run, where Flower is installed."""
    if not importlib.util.find_spec("flwr"):
        return []
    from feduplink.flower import TaskResult
    from flower.test_task_run import result

    content = _written(lambda p: result().write(p), "result.safetensors")
    return [
        Format(
            "result of Flower",
            "result.safetensors",
            content,
            lambda p: _same(TaskResult.read(p).model),
        )
    ]


def _exported() -> list[Format]:
    """An exported policy, where ONNX and ONNX Runtime are there."""
    if not all(map(importlib.util.find_spec, ("onnx", "onnxruntime", "fastapi"))):
        return []
    from feduplink.export import OnnxPolicy
    from serving.conftest import channels, write_policy

    def powers(path: Path) -> Any:
        return OnnxPolicy(path / "a.onnx").allocate(channels(5, 4)).tolist()

    content = _written(lambda p: write_policy(p / "a.onnx"), "a.onnx")
    return [Format("exported policy", "a.onnx", content, powers)]


def _anything(_found: Any) -> bool:
    return True


def formats() -> list[Format]:
    """All of them, each with a file that is whole."""
    from proofs.plain_search import plain_proof

    csi = draw_csi(Scenario(workers=3), 40, torch.Generator().manual_seed(0))
    trainer, federation = _trainer(), _federation()
    limits = Limits()
    body = csi[:4].numpy().astype("<f4")
    return [
        Format(
            "scenario", "a.yaml", Scenario(workers=4).to_yaml().encode(),
            lambda p: Scenario.load(p / "a.yaml").model_dump(), _anything,
        ),
        Format(
            "metrics", "metrics.json", _written(_metrics, "metrics.json"),
            lambda p: read_metrics(p).model_dump(), _anything,
        ),
        Format(
            "pdg", "policy.safetensors",
            _written(lambda p: save_policy(trainer.trained(), p), "policy.safetensors"),
            lambda p: _same(load_policy(p).tensors()),
        ),
        Format(
            "pdx", "policy.safetensors",
            _written(lambda p: save_policy(shipped_pdx(), p), "policy.safetensors"),
            lambda p: sum(t.double().sum() for t in load_policy(p).tensors().values()),
        ),
        Format(
            "training checkpoint", "checkpoint.safetensors",
            _written(
                lambda p: trainer.run(checkpoint=p / "checkpoint.safetensors"),
                "checkpoint.safetensors",
            ),
            _resumed,
        ),
        Format(
            "federated checkpoint", "federated.safetensors",
            _written(
                lambda p: federation.run(checkpoint=p / "federated.safetensors"),
                "federated.safetensors",
            ),
            _federation_resumed,
        ),
        Format(
            "channels", "a.h5",
            _written(lambda p: write_channels(p / "a.h5", Realisations(csi)), "a.h5"),
            lambda p: read_channels(p / "a.h5").csi.tolist(), _is_csi,
        ),
        *_channels_of_others(csi.numpy()),
        Format(
            "proof", "a.h5", _written(lambda p: write_proof(p / "a.h5", plain_proof(0)), "a.h5"),
            lambda p: read_proof(p / "a.h5").csi.tolist(),
        ),
        Format(
            "idx", "images.gz", _idx(np.arange(200).reshape(2, 10, 10)),
            lambda p: mnist_task.read_idx(p / "images.gz", 3).tolist(), None,
        ),
        Format("npz", "vectors.npz", _npz(), _word_vectors),
        Format(
            "readings", "a.csv", _readings(),
            lambda p: [t.tolist() for t in airquality_task.read_readings(p / "a.csv")],
            _is_readings,
        ),
        Format("reviews", "a.csv.xz", _reviews(), lambda p: list(read_reviews(p / "a.csv.xz"))),
        Format(
            "drawing", "a.svg", _written(_drawing, "a.svg"),
            lambda p: [f.source for f in read_figures(p)], _anything,
        ),
        Format(
            "table", "a.md", b"| policy | PSR |\n| --- | --- |\n| pdx | 0.9 |\n\n[x](https://a.b)\n",
            lambda p: read_markdown(p), _anything,
        ),
        Format(
            "csv", "a.csv", b"policy,psr\npdx,0.9\npdg,0.8\n", read_csv_tables, _anything,
        ),
        Format(
            "csi as JSON", "a.json", json.dumps({"csi": body.tolist()}).encode(),
            lambda p: csi_from_json((p / "a.json").read_bytes(), None, limits).tolist(), _is_csi,
        ),
        Format(
            "csi as bytes", "a.bin", body.tobytes(),
            lambda p: csi_from_bytes((p / "a.bin").read_bytes(), 3, limits).tolist(), _is_csi,
        ),
        *_exported(),
        *_flower(),
    ]  # fmt: skip
