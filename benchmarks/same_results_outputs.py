"""What the outputs of ``same_results.py`` hold: values, texts and arrays by their place."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from same_results_jobs import gains

#: Keys of JSON objects that differ from run to run, or with the version.
_NOT_COMPARED = {"provenance", "seconds", "runs_s", "took_s", "version"}
#: Directories and files that are caches, or hold times.
SKIPPED = re.compile(r"(^|/)(kept|tensorboard)/|\.svg$")
#: Parts of printed text that name times and addresses.
_MASKS = (
    (re.compile(r"(?m), \d+ s$"), ", - s"),
    (re.compile(r"(?m)^seconds +[\d.]+$"), "seconds -"),
    (re.compile(r"(?m)^data directory: .*$"), "data directory: -"),
)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\binf\b|\bnan\b)")
_WARNING = re.compile(r"(?m)^feduplink: .*$")


@dataclass(frozen=True)
class Array:
    """An array, compared by type, shape and bits."""

    kind: str
    shape: tuple[int, ...]
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, values: Any) -> Array:
        """That of a NumPy array or scalar."""
        array = np.asarray(values)
        if array.dtype.hasobject:
            array = np.array([str(value) for value in array.ravel()])
        return cls(str(array.dtype), array.shape, array.tobytes())

    def against(self, other: Array) -> str:
        """How another array differs, in words."""
        if (self.kind, self.shape) != (other.kind, other.shape):
            return f"{self.kind} {self.shape} -> {other.kind} {other.shape}"
        if np.dtype(self.kind).kind not in "fiub":
            return "other values"
        old, new = (
            np.frombuffer(array.content, array.kind).astype(np.float64) for array in (self, other)
        )
        changed = ~((old == new) | (np.isnan(old) & np.isnan(new)))
        with np.errstate(invalid="ignore"):
            largest = np.nanmax(np.abs(old - new)[changed], initial=0.0)
        return f"{int(changed.sum())} of {old.size} values differ, by up to {largest:.3g}"


class Text(str):
    """Text, compared by its words and by its numbers."""

    __slots__ = ()

    def numbers(self) -> list[str]:
        """All numbers in it, as they are written."""
        return _NUMBER.findall(self)


def contents(path: Path) -> dict[str, Any]:
    """What a file holds: values, texts and arrays by their place in it."""
    readers: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
        ".json": _read_json,
        ".csv": _read_csv,
        ".safetensors": _read_tensors,
        ".h5": _read_hdf5,
        ".onnx": _read_onnx,
        ".png": _read_pixels,
        ".html": _read_page,
    }
    return dict(readers.get(path.suffix, _read_text)(path))


def _read_json(path: Path) -> Iterator[tuple[str, Any]]:
    return flat(json.loads(path.read_text("utf-8")))


def flat(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested objects and lists by their path."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in _NOT_COMPARED:
                yield from flat(value, f"{place}/{key}")
    elif isinstance(content, list):
        yield f"{place}/length", len(content)
        for number, value in enumerate(content):
            yield from flat(value, f"{place}/{number}")
    elif isinstance(content, str):
        yield place, Text(content)
    else:
        yield place, content


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    yield "rows", len(rows)
    for number, name in enumerate(header):
        yield f"column {name}", tuple(row[number] for row in rows)


def _read_tensors(path: Path) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        for name in file.keys():  # noqa: SIM118, no mapping
            yield f"tensor {name}", Array.of(file.get_tensor(name))
        for name, text in (file.metadata() or {}).items():
            yield from flat(_without_checksum(text), f"header {name}")


def _without_checksum(text: str) -> Any:
    """JSON without the checksum over the whole file, whose parts are compared; or the text."""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    if isinstance(content, dict):
        content.pop("sha256", None)
    return content


def _read_hdf5(path: Path) -> Iterator[tuple[str, Any]]:
    import h5py

    with h5py.File(path) as file:
        found: dict[str, Any] = {"": file}
        file.visititems(found.__setitem__)
        for name, item in found.items():
            for key, value in item.attrs.items():
                text = isinstance(value, str)
                yield f"{name}@{key}", Text(value) if text else Array.of(value)
            if isinstance(item, h5py.Dataset):
                value = item[()]
                text = isinstance(value, bytes)
                yield name, Text(value.decode()) if text else Array.of(value)


def _read_onnx(path: Path) -> Iterator[tuple[str, Any]]:
    """The weights, and the outputs on fixed inputs by one thread."""
    import onnx
    import onnxruntime

    model = onnx.load(path)
    for entry in model.metadata_props:
        yield from flat(_without_checksum(entry.value), f"metadata {entry.key}")
    weights = sorted(
        hashlib.sha256(onnx.numpy_helper.to_array(tensor).tobytes()).hexdigest()
        for tensor in model.graph.initializer
    )
    yield "initializers", tuple(weights)
    yield "operators", tuple(sorted(node.op_type for node in model.graph.node))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    fixed = given.shape[-1]
    workers = fixed if isinstance(fixed, int) else 5
    outputs = session.run(None, {given.name: np.array(gains(6, workers), np.float32)})
    for described, output in zip(session.get_outputs(), outputs, strict=True):
        yield f"output {described.name}", Array.of(output)


def _read_pixels(path: Path) -> Iterator[tuple[str, Any]]:
    from PIL import Image

    with Image.open(path) as image:
        yield "pixels", Array.of(np.asarray(image))


def _read_page(path: Path) -> Iterator[tuple[str, Any]]:
    """The visible text, without the blocks on provenance, and the pictures' checksums."""
    source = path.read_text("utf-8")
    source = re.sub(r"(?s)<(style|script|svg)\b.*?</\1>", "", source)
    pictures = re.findall(r"data:image/(?!svg)[\w+]+;base64,([\w+/=]+)", source)
    for number, picture in enumerate(pictures):
        with contextlib.suppress(OSError, ImportError):
            from PIL import Image

            with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
                yield f"picture {number}", Array.of(np.asarray(image))
    text = html.unescape(re.sub(r"<[^>]*>", "\n", source))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    yield "text", Text(_masked("\n".join(_without_provenance(lines))))


def _without_provenance(lines: list[str]) -> Iterator[str]:
    """The lines of a page but those after a heading on how a run was made."""
    for line in lines:
        if not re.search(r"\d{4}-\d\d-\d\d|\b[\d.]+ s(econds)?$|^(python|torch|numpy) ", line):
            yield line


def _read_text(path: Path) -> Iterator[tuple[str, Any]]:
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".stderr":
        text = "\n".join(_WARNING.findall(text))
    yield "text", Text(_masked(text))


def _masked(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text
