"""Tasks of the user's own, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from federated.conftest import blob_task
from feduplink import InputError, Scenario
from feduplink.federated import (
    Federation,
    FederationSettings,
    LocalWork,
    Task,
    load_task,
    task_options,
)
from feduplink.policies import Ideal

BLOBS = blob_task(LocalWork(batch_size=5))
HERE = __name__


def plain(*, workers: int) -> Task:
    assert workers == 3
    return BLOBS


def spread(*, workers: int, partition: str = "even", directory: Path | None = None) -> Task:
    return blob_task(LocalWork(batch_size=5 if partition == "even" else 7))


def anything(**options: object) -> Task:
    return blob_task(LocalWork(batch_size=len(options)))


def needs_more(workers: int, colour: str) -> Task:
    return BLOBS


def no_task(workers: int) -> int:
    return workers


def test_task_function_receives_the_given_options():
    assert load_task(f"{HERE}:plain", workers=3) is BLOBS
    assert load_task(f"{HERE}:spread", workers=3).work.batch_size == 5
    assert load_task(f"{HERE}:spread", workers=3, partition="odd").work.batch_size == 7
    assert load_task(f"{HERE}:anything", workers=3, directory=Path()).work.batch_size == 2
    assert task_options(f"{HERE}:spread") == {"partition": "even", "directory": None}
    assert task_options(f"{HERE}:plain") == {}


def test_a_task_itself_must_fit_the_scenario():
    task = load_task(f"{HERE}:BLOBS", workers=4)
    assert task is BLOBS
    with pytest.raises(InputError, match="the task has data for 3 workers, the scenario has 4"):
        Federation(
            task, {"ideal": Ideal(Scenario())}, Scenario(workers=4), FederationSettings(rounds=1)
        ).run()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("cifar", {}, "task: 'cifar' is unknown; accepted: digits, mnist, "),
        ("minst", {}, "did you mean mnist"),
        (
            "airquality",
            {"partition": "iid"},
            "partition: 'iid' is not accepted; the task airquality has no",
        ),
        ("digits", {"directory": Path("x")}, "the task digits has no option directory."),
        ("digits", {"partition": "odd"}, "partition: 'odd' is unknown; accepted: iid, gaussian"),
        (f"{HERE}:plain", {"partition": "iid"}, f"the task {HERE}:plain has no option partition"),
        (f"{HERE}:BLOBS", {"partition": "iid"}, "BLOBS has no option partition"),
        (f"{HERE}:needs_more", {}, "needs_more cannot be called with workers=N"),
        (f"{HERE}:HERE", {}, "HERE cannot be called with workers=N"),
        (f"{HERE}:no_task", {}, "no_task returned a int; accepted: a Task."),
        (f"{HERE}:nothing", {}, f"task: {HERE}:nothing cannot be imported"),
    ],
)
def test_unknown_tasks_and_options_are_refused(name: str, options: dict, sentence: str):
    with pytest.raises(InputError) as refusal:
        load_task(name, workers=3, **options)
    assert sentence in str(refusal.value)
