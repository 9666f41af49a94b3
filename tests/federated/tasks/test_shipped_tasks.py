from __future__ import annotations

import dataclasses
import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.federated import (
    Examples,
    FederatedData,
    Federation,
    FederationSettings,
    LocalWork,
    load_task,
)
from feduplink.federated.data.reviews import PADDING
from feduplink.federated.models import ModelStack
from feduplink.federated.tasks import (
    airquality as airquality_task,
)
from feduplink.federated.tasks import (
    images as mnist_task,
)
from feduplink.federated.tasks import (
    reviews as imdb_task,
)
from feduplink.policies import Ideal, UnselectedRandomPower
from feduplink.scenario import data_sizes

SCENARIO = Scenario()


def draw(task, seed=0):
    return task.data(np.random.default_rng(seed))


def test_digits_are_balanced_with_a_separate_test_set():
    data = draw(load_task("digits", workers=8))
    assert len(data.pool) == 4000
    assert len(data.test) == 1000
    assert data.pool.inputs.shape[1] == 784
    rows = torch.cat(data.shares).tolist()
    assert len(set(rows)) == len(rows)
    weights = data.sizes / data.sizes.sum()
    torch.testing.assert_close(weights, SCENARIO.worker_weights, atol=2e-3, rtol=0)
    labels = torch.cat([data.pool.targets, data.test.targets]).bincount()
    assert labels.tolist() == [500] * 10


def test_digits_learn_in_a_few_rounds():
    task = load_task("digits", workers=8)
    history = Federation(
        task, {"ideal": Ideal(Scenario())}, SCENARIO, FederationSettings(rounds=20)
    ).run()
    error = history.policies["ideal"][0].error
    assert error[-1] < 0.2 < error[0]


@pytest.mark.parametrize("partition", ["gaussian", "dirichlet"])
def test_partitions_change_the_data_of_workers(partition):
    iid, skewed = (draw(load_task("digits", workers=8, partition=p)) for p in ("iid", partition))

    def spread(data):
        kind = data.pool.targets if partition == "dirichlet" else data.pool.inputs.mean(1)
        return torch.stack([kind[share].float().mean() for share in data.shares]).std()

    assert spread(skewed) > 3 * spread(iid)
    assert skewed.test.inputs.equal(iid.test.inputs)


def test_lengths_must_fit_their_sequences():
    inputs, targets = torch.zeros(3, 5), torch.zeros(3)
    for wrong in ([1, 2], [0, 2, 3], [1, 2, 6]):
        with pytest.raises(InputError, match="lengths: "):
            Examples(inputs, targets, torch.tensor(wrong))
    with pytest.raises(InputError, match="lengths: "):
        Examples(targets, targets, torch.ones(3, dtype=torch.long))


def test_workers_sequences_make_a_pool_of_sequences():
    def worker(lengths: list[int]) -> Examples:
        return Examples(
            torch.zeros(len(lengths), 5), torch.zeros(len(lengths)), torch.tensor(lengths)
        )

    data = FederatedData.from_workers([worker([1, 2]), worker([3])], worker([4, 5]))
    assert data.pool.lengths.tolist() == [1, 2, 3]
    assert data.pool.take(torch.tensor([2, 0])).lengths.tolist() == [3, 1]


def idx(values: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return gzip.compress(header + values.astype(np.uint8).tobytes())


def test_idx_files(tmp_path: Path):
    path = tmp_path / "images.gz"
    images = np.arange(24).reshape(2, 3, 4)
    path.write_bytes(idx(images))
    assert mnist_task.read_idx(path, 3).tolist() == images.tolist()
    path.write_bytes(idx(np.array([3, 1])))
    assert mnist_task.read_idx(path, 1).tolist() == [3, 1]
    for damaged in (
        idx(images)[:-12],
        gzip.compress(b"hello"),
        idx(np.array([3])),
        b"\x1f\x8b\x08",
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="not a complete idx file"):
            mnist_task.read_idx(path, 3)


@pytest.mark.parametrize(
    ("images", "labels"),
    [((2, 28, 28), [3, 10]), ((3, 28, 28), [3, 1]), ((2, 28, 27), [3, 1])],
)
def test_mismatched_images_and_labels_are_refused(
    tmp_path: Path, images: tuple[int, ...], labels: list[int]
):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(idx(np.zeros(images)))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.array(labels)))
    with pytest.raises(InputError, match="do not belong together"):
        mnist_task.read_images(tmp_path, "train")


def test_grey_levels_inverts_standardised():
    images = torch.arange(256, dtype=torch.uint8)
    assert mnist_task.grey_levels(mnist_task.standardised(images)).equal(images)
    assert mnist_task.grey_levels(torch.tensor([-9.0, 9.0])).tolist() == [0, 255]


def test_incomplete_readings_are_excluded(tmp_path: Path):
    path = tmp_path / "table.csv"
    columns = ("Date", *airquality_task.FEATURES, airquality_task.TARGET)
    rows = [
        ["1", *"12345678", "9,5"],
        ["1", "-200", *"2345678", "9"],
        ["1", *"12345678", "-200"],
        [""] * 10,
    ]
    path.write_text("\n".join(";".join(row) for row in [columns, *rows]) + "\n")
    features, target = airquality_task.read_readings(path)
    assert features.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert target.tolist() == [9.5]
    path.write_text("another;table\n1;2\n")
    with pytest.raises(InputError, match="not the UCI Air Quality table"):
        airquality_task.read_readings(path)


def test_unknown_words_start_at_zero_and_words_without_vector_at_random():
    torch.manual_seed(0)
    table = imdb_task.embedding_table(torch.ones(3, 4), torch.tensor([True, False, True]))
    assert table[[0, 1]].eq(0).all()
    assert table[[2, 4]].eq(1).all()
    assert table[3].ne(1).all()


def test_mnist_is_as_specified(real_data: Path):
    task = load_task("mnist", workers=8, directory=real_data)
    data = draw(task)
    assert data.sizes.tolist() == (5 * data_sizes(8)).tolist()
    assert len(data.pool) == 60_000
    assert len(data.test) == 1000
    assert data.pool.inputs.mean().item() == pytest.approx(0, abs=1e-3)
    assert data.pool.inputs.std().item() == pytest.approx(1, abs=1e-3)
    assert ModelStack(task.model()).weights_per_model == 39_760


def test_air_quality_is_as_specified(real_data: Path):
    task = load_task("airquality", workers=8, directory=real_data)
    data = draw(task)
    assert data.sizes.tolist() == (data_sizes(8) // 5).tolist()
    assert len(data.pool) == 8991
    assert len(data.test) == 100
    assert data.pool.targets.max() == 10
    held = data.pool.inputs[torch.cat(data.shares)]
    torch.testing.assert_close(held.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(held.std(0), torch.ones(8), atol=1e-5, rtol=0)


def test_air_quality_reaches_its_error(real_data: Path):
    task = load_task("airquality", workers=8, directory=real_data)
    history = Federation(
        task, {"ideal": Ideal(Scenario())}, SCENARIO, FederationSettings(runs=3)
    ).run()
    assert history.final_error("ideal") < 0.09


@pytest.mark.slow
def test_mnist_curves_of_the_specification(real_data: Path):
    task = load_task("mnist", workers=8, directory=real_data)
    policies = {"ideal": Ideal(Scenario()), "rand": UnselectedRandomPower(SCENARIO)}
    right = Federation(task, policies, SCENARIO, FederationSettings(runs=3)).run()
    published = Federation(
        task, policies, SCENARIO, FederationSettings(runs=3, aggregation="published")
    ).run()
    assert right.final_error("ideal") < 0.11
    assert right.final_error("rand") < 0.12
    assert 0.2 < published.final_error("rand") < 0.4


def test_reviews_are_not_truncated(real_data: Path):
    task = load_task("imdb", workers=8, directory=real_data)
    data = draw(task)
    assert data.pool.inputs.shape == (25_000, 2770)
    assert data.pool.inputs.dtype == torch.int16
    assert (data.pool.inputs != PADDING).sum(1).equal(data.pool.lengths)
    assert sum(map(len, data.shares)) == pytest.approx(17_500, abs=8)
    assert len(data.test) == 7_500


def test_reviews_train_in_a_small_configuration(real_data: Path):
    size = imdb_task.Size(train=400, test=60, words=500, length=24, hidden=8)
    work = LocalWork(batch_size=10, batches=2, learning_rate=2e-3, clip_norm=5.0, epsilon=1e-5)
    task = imdb_task.imdb(workers=4, directory=real_data, size=size, work=work)
    history = Federation(
        task,
        {"ideal": Ideal(Scenario())},
        Scenario(workers=4),
        FederationSettings(runs=2, rounds=2),
    ).run()
    for run in history.policies["ideal"]:
        assert all(0.2 < error < 0.8 for error in run.error)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"batch_size": 0}, "batch_size: 0 is not accepted; accepted: whole numbers from 1."),
        ({"batch_size": 2.5}, "batch_size: 2.5 "),
        ({"batches": 0}, "batches: 0 "),
        ({"learning_rate": -1}, "learning_rate: -1 is not accepted; accepted: finite, above 0."),
        ({"learning_rate": float("nan")}, "learning_rate: nan "),
        ({"clip_norm": 0.0}, "clip_norm: 0.0 "),
        ({"epsilon": float("inf")}, "epsilon: inf "),
        ({"weight_decay": -0.1}, "weight_decay: -0.1 is not accepted; accepted: finite, 0 or mo"),
    ],
)
def test_local_work_out_of_range_is_refused(wrong: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        LocalWork(**{"batch_size": 8, **wrong})
    assert LocalWork(batch_size=np.int64(8), weight_decay=0).batches is None


@pytest.mark.parametrize("field", ["rounds", "evaluation_batch"])
def test_a_task_without_rounds_or_with_empty_batches_is_refused(field: str):
    task = load_task("digits", workers=8)
    with pytest.raises(InputError, match=f"{field}: 0 is not accepted; accepted: whole numbers"):
        dataclasses.replace(task, **{field: 0})
