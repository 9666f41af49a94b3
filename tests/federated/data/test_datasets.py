from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import http.server
import io
import json
import lzma
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from feduplink import InputError
from feduplink.cli import command_line
from feduplink.federated.data import (
    DATA_SETS,
    DataFile,
    DataSet,
    FileState,
    data_directory,
    data_set,
    fetch,
    file_state,
    require,
)
from feduplink.federated.data.datasets import content_digest
from feduplink.federated.data.reviews import encode, most_frequent, read_reviews, tokens


@contextlib.contextmanager
def serving(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address at which requests come to ``handler``."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory and the address it is served at."""
    directory = tmp_path / "home"
    directory.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            pass

    with serving(functools.partial(Quiet, directory=str(directory))) as address:
        yield directory, address


def served(name: str, address: str, originals: list[str], digests: list[str]) -> DataSet:
    """The set ``name`` with its originals at our own address."""
    entry = DATA_SETS[name]
    return replace(
        entry,
        files=tuple(
            replace(file, url=f"{address}/{original}", sha256=digest)
            for file, original, digest in zip(entry.files, originals, digests, strict=True)
        ),
    )


def review_archive(path: Path) -> bytes:
    """A tar file laid out as the original, and the CSV that must come out."""
    reviews = [("train", "neg", 1, 2), ("test", "pos", 0, 9), ("train", "neg", 0, 3)]
    reviews += [("train", "pos", 0, 8), ("train", "unsup", 0, 0)]
    with tarfile.open(path, "w:gz") as archive:
        for split, label, number, rating in reviews:
            text = f'{split} {label}, "quoted" {number}'.encode()
            member = tarfile.TarInfo(f"aclImdb/{split}/{label}/{number}_{rating}.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    rows = [
        ("split", "label", "id", "rating", "text"),
        ("train", 0, 0, 3, 'train neg, "quoted" 0'),
        ("train", 0, 1, 2, 'train neg, "quoted" 1'),
        ("train", 1, 0, 8, 'train pos, "quoted" 0'),
        ("test", 1, 0, 9, 'test pos, "quoted" 0'),
    ]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def digest_of(content: bytes, name: str, scratch: Path) -> str:
    path = scratch / name
    path.write_bytes(content)
    return content_digest(path)


def test_plain_files_are_fetched_and_checked(home, tmp_path: Path):
    directory, address = home
    names = [file.path.split("/")[1] for file in DATA_SETS["mnist"].files]
    for name in names:
        (directory / name).write_bytes(gzip.compress(name.encode()))
    entry = served("mnist", address, names, [content_digest(directory / name) for name in names])
    target = tmp_path / "data"
    fetch(entry, target)
    assert {file_state(file, target) for file in entry.files} == {FileState.INTACT}
    assert [path.name for path in target.iterdir()] == ["mnist"]

    assert {(target / file.path).stat().st_mode & 0o777 for file in entry.files} == {0o644}

    for name in names[1:]:  # a second time nothing is asked of the server but what is damaged
        (directory / name).unlink()
    (target / entry.files[0].path).write_bytes(b"damaged")
    fetch(entry, target)
    assert {file_state(file, target) for file in entry.files} == {FileState.INTACT}


def test_downloaded_files_are_kept_if_a_later_one_fails(home, tmp_path: Path):
    directory, address = home
    names = [file.path.split("/")[1] for file in DATA_SETS["mnist"].files]
    for name in names[:2]:
        (directory / name).write_bytes(name.encode())
    digests = [content_digest(directory / name) for name in names[:2]] + ["?", "?"]
    entry = served("mnist", address, names, digests)
    with pytest.raises(InputError, match=f"cannot fetch {address}/{names[2]}: 404 "):
        fetch(entry, tmp_path / "data")
    present = sorted(path.name for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert present == sorted(names[:2])


def test_table_is_extracted_from_its_archive(home, tmp_path: Path):
    directory, address = home
    with zipfile.ZipFile(directory / "air.zip", "w") as archive:
        archive.writestr("AirQualityUCI.csv", "a;b\n")
        archive.writestr("AirQualityUCI.xlsx", "another")
    digest = digest_of(b"a;b\n", "table.csv", tmp_path)
    fetch(served("airquality", address, ["air.zip"], [digest]), tmp_path)
    assert (tmp_path / "airquality/AirQualityUCI.csv").read_bytes() == b"a;b\n"


def test_command_downloads_data_sets(home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory, address = home
    with zipfile.ZipFile(directory / "air.zip", "w") as archive:
        archive.writestr("AirQualityUCI.csv", "a;b\n")
    entry = served("airquality", address, ["air.zip"], [digest_of(b"a;b\n", "t.csv", tmp_path)])
    monkeypatch.setitem(DATA_SETS, "airquality", entry)
    target, out = tmp_path / "data", tmp_path / "out"
    words = ["data", "--fetch", "airquality", "--verify", "--data", str(target), "--out", str(out)]
    assert command_line.main(words) == 0
    assert (target / "airquality/AirQualityUCI.csv").read_bytes() == b"a;b\n"
    sets = json.loads((out / "metrics.json").read_text())["sets"]
    assert sets["airquality"]["state"] == FileState.INTACT
    assert sets["mnist"]["state"] == FileState.MISSING


def test_reviews_are_converted_to_one_table(home, tmp_path: Path):
    directory, address = home
    expected = review_archive(directory / "reviews.tar.gz")
    entry = served(
        "imdb", address, ["reviews.tar.gz"], [digest_of(expected, "table.csv", tmp_path)]
    )
    fetch(entry, tmp_path)
    assert lzma.decompress((tmp_path / "imdb/imdb_50k.csv.xz").read_bytes()) == expected
    reviews = list(read_reviews(tmp_path / "imdb/imdb_50k.csv.xz"))
    assert [review.positive for review in reviews] == [False, False, True, True]
    assert [review.split for review in reviews] == ["train"] * 3 + ["test"]


def test_word_vectors_cover_the_words_of_the_reviews(home, tmp_path: Path):
    directory, address = home
    expected = review_archive(directory / "reviews.tar.gz")
    imdb = served("imdb", address, ["reviews.tar.gz"], [digest_of(expected, "t.csv", tmp_path)])
    with zipfile.ZipFile(directory / "glove.zip", "w") as archive:
        lines = [
            f"{word} {' '.join(str(value + i / 50) for i in range(50))}"
            for value, word in enumerate(("neg", "elsewhere", ","))
        ]
        archive.writestr("glove.6B.50d.txt", "\n".join(lines) + "\n")
    glove = served("glove", address, ["glove.zip"], ["?"])
    with pytest.raises(InputError, match="'imdb' is not in"):
        fetch(glove, tmp_path)
    fetch(imdb, tmp_path)
    with pytest.raises(InputError, match="expected checksum; the file was discarded"):
        fetch(glove, tmp_path)
    assert not (tmp_path / "glove").exists()

    # With the right digest it is kept; the content is worked out by hand.
    words = ['"', ",", "quoted", "train", "neg", "0", "1", "pos"]
    counts = [6, 3, 3, 3, 2, 2, 1, 1]
    order = sorted(range(len(words)), key=lambda i: (-counts[i], words[i]))
    vectors = np.zeros((8, 50), np.float16)
    for row, i in enumerate(order):
        if words[i] in ("neg", ","):
            base = 0 if words[i] == "neg" else 2
            vectors[row] = np.array([base + j / 50 for j in range(50)], np.float32)
    by_hand = tmp_path / "by-hand.npz"
    np.savez(
        by_hand,
        vectors=vectors,
        in_glove=vectors.any(1) | np.array([words[i] == "neg" for i in order]),
        counts=np.array([counts[i] for i in order], np.int32),
        tokens=np.frombuffer("\n".join(words[i] for i in order).encode(), np.uint8),
    )
    fetch(served("glove", address, ["glove.zip"], [content_digest(by_hand)]), tmp_path)
    assert content_digest(tmp_path / DATA_SETS["glove"].files[0].path) == content_digest(by_hand)


def test_wrong_or_missing_originals_are_discarded(home, tmp_path: Path):
    directory, address = home
    (directory / "air.zip").write_bytes(b"no archive")
    target = tmp_path / "data"
    with pytest.raises(InputError, match=r"air\.zip is not the original of airquality"):
        fetch(served("airquality", address, ["air.zip"], ["?"]), target)
    with pytest.raises(InputError, match=r"cannot fetch .*404"):
        fetch(served("airquality", address, ["nothing.zip"], ["?"]), target)
    with zipfile.ZipFile(directory / "air.zip", "w") as archive:
        archive.writestr("AirQualityUCI.csv", "changed")
    with pytest.raises(InputError, match=r"air.zip does not have the expected checksum"):
        fetch(served("airquality", address, ["air.zip"], ["?"]), target)
    assert list(target.iterdir()) == []


def test_unreachable_server_is_reported_in_one_sentence(tmp_path: Path):
    entry = served("airquality", "http://127.0.0.1:9", ["air.zip"], ["?"])
    with pytest.raises(InputError) as refused:
        fetch(entry, tmp_path)
    assert str(refused.value) == (
        "data: cannot fetch http://127.0.0.1:9/air.zip: [Errno 111] Connection refused."
    )


def test_interrupted_download_is_reported_in_one_sentence(tmp_path: Path):
    class BreaksOff(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"too little")

        def log_message(self, *_args: object) -> None:
            pass

    with serving(BreaksOff) as address:
        entry = served("airquality", address, ["air.zip"], ["?"])
        with pytest.raises(InputError, match=r"cannot fetch .*10 bytes read, 990 more expected"):
            fetch(entry, tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_missing_data_set_is_refused_with_the_download_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)
    with pytest.raises(InputError, match="'feduplink data --fetch mnist --data DIR'"):
        require("mnist")
    with pytest.raises(InputError, match=r"AirQualityUCI.csv is missing\); download it with"):
        require("airquality", tmp_path)
    with pytest.raises(InputError, match="'cifar' is unknown; accepted: mnist"):
        data_set("cifar")


def test_the_directory_is_the_given_one_or_that_of_the_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEDUPLINK_DATA", "/from/variable")
    assert data_directory() == Path("/from/variable")
    assert data_directory(Path("given")) == Path("given")
    monkeypatch.delenv("FEDUPLINK_DATA")
    assert data_directory() is None


def test_damaged_files_are_detected(tmp_path: Path):
    path = tmp_path / "file.csv.xz"
    path.write_bytes(lzma.compress(b"content"))
    file = DataFile("file.csv.xz", content_digest(path), "http://nowhere")
    assert file_state(file, tmp_path) is FileState.INTACT
    path.write_bytes(lzma.compress(b"content", preset=1))  # another packing of the same
    assert file_state(file, tmp_path) is FileState.INTACT
    path.write_bytes(lzma.compress(b"contents"))
    assert file_state(file, tmp_path) is FileState.DAMAGED
    path.write_bytes(path.read_bytes()[:-5])
    assert file_state(file, tmp_path) is FileState.DAMAGED
    path.unlink()
    assert file_state(file, tmp_path) is FileState.MISSING


def test_tokens_are_words_clitics_and_punctuation():
    text = "Don't<br />stop! It’s 10/10, they'd say"
    expected = ["do", "n't", "stop", "!", "it", "'s", "10", "/", "10", ",", "they", "'d", "say"]
    assert list(tokens(text)) == expected


def test_frequent_tokens_come_by_count_then_alphabet():
    assert most_frequent(["b a c", "c"], 2) == [("c", 2), ("a", 1)]


def test_encoding_cuts_pads_and_knows_the_unknown():
    vocabulary = {"good": 2, "bad": 3}
    texts = ["good film bad", "bad", ""]
    rows, lengths = encode(texts, vocabulary, 2)
    assert rows.tolist() == [[2, 0], [3, 1], [0, 1]]
    assert lengths.tolist() == [2, 1, 1]
    rows, lengths = encode(texts, vocabulary)
    assert rows.tolist() == [[2, 0, 3], [3, 1, 1], [0, 1, 1]]
    assert lengths.tolist() == [3, 1, 1]
    assert rows.itemsize == 2


def test_every_data_set_has_licence_and_source():
    for entry in DATA_SETS.values():
        assert entry.licence
        assert entry.source.startswith("http")
        assert entry.files
        assert all(len(file.sha256) == 64 for file in entry.files)


def test_the_real_files_are_intact(real_data: Path):
    for entry in DATA_SETS.values():
        assert {file_state(file, real_data) for file in entry.files} == {FileState.INTACT}


def test_tokeniser_reproduces_the_vocabulary(real_data: Path):
    reviews = read_reviews(real_data / "imdb/imdb_50k.csv.xz")
    frequent = most_frequent((r.text for r in reviews if r.split == "train"), 25_000)
    with np.load(real_data / "glove/glove_6b_50d_imdb25k_f16.npz") as arrays:
        assert bytes(arrays["tokens"]).decode().split("\n") == [token for token, _ in frequent]
        assert arrays["counts"].tolist() == [count for _, count in frequent]
