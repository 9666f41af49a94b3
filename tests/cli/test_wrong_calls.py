"""Wrong calls of every command: one sentence, exit status 2, no traceback, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run, refused

#: A command line, and a word that its refusal has to name.
CALLS = """
demo --workers 0                                        : workers
demo --workers 2.5                                      : integer
demo --out taken/below                                  : taken
demo --scenario nowhere.yaml                            : nowhere.yaml
demo --sead 1                                           : --seed
channels --count 0                                      : greater than or equal to 1
channels --count many                                   : many
channels --seed -1                                      : seed
channels --antennas 0                                   : antennas
channels --cell-side-m -5                               : cell_side_m
channels --channel-model moon                           : hata-urban
channels --channel-model nowhere:Model                  : nowhere
channels --geometry circle                              : geometry
channels --speed-mps 3                                  : geometry: kept
channels --carrier-hz 1                                 : carrier_hz
channels --scenario list.yaml                           : mapping
channels --scenario broken.yaml                         : YAML
channels --scenario typo.yaml                           : did you mean workers?
channels --import nowhere_module                        : nowhere_module
channels --out taken                                    : taken
train                                                   : --policy
train --policy max                                      : cannot be trained
train --policy pdq                                      : did you mean
train --policy pdg --epochs 0                           : epochs
train --policy pdg --learning-rate -1                   : learning_rate
train --policy pdg --preset papers                      : did you mean paper?
train --policy pdg --steps 500                          : steps
train --policy pdx --epochs 5                           : epochs
train --policy pdm --no-bias                            : bias
train --policy pdg --device gpu                         : device
train --policy pdg --device cuda:99                     : cuda:99
train --policy pdg --channels nowhere.h5                : nowhere.h5
train --policy pdg --channels text.h5                   : text.h5
train --policy pdg --resume                             : checkpoint
evaluate --policies ,                                   : no policy is given
evaluate --policies mox                                 : did you mean max?
evaluate --policies nowhere/policy                      : nowhere/policy
evaluate --policies empty                               : empty
evaluate --policies max --device cuda:99                 : cuda:99
evaluate --optimum soon                                 : only options
evaluate --rate-min 0.7,0.6                             : 8 workers
evaluate --rate-min high                                : rate_min
evaluate --rate-min 0.7 --time-max-s 5                  : both given
evaluate --model-bits 5                                 : time-max-s
evaluate --constraints psr=1                            : constraints
evaluate --constraints ps>=1                            : did you mean psr?
evaluate --objective rates                              : did you mean rate?
evaluate --utility sum                                  : utility
evaluate --channels nowhere.h5                          : nowhere.h5
evaluate --channels-per-split 0                         : channels_per_split
optimum --budget-s -1                                   : budget_s
optimum --confidence 1                                  : less than 1
optimum --whole-file                                    : --channels
optimum --certificate empty                             : directory
check                                                   : PROOF
check nowhere.h5                                        : nowhere.h5
check text.h5 --processes 0                             : processes
export --policy nowhere                                 : nowhere
serve --port 70000                                      : 65535
serve --policy nowhere.onnx                             : nowhere.onnx
serve --max-workers 0                                   : max_workers
schedule --kappa -1                                     : kappa
schedule --kappa fast                                   : fast
schedule --delivery 0                                   : delivery
schedule --delivery 0.2,0.5                             : delivery
schedule --delivery 0.5 --budget-s 5                    : budget
federate --delivery 2                                   : delivery
federate --task digitz                                  : did you mean digits?
federate --runs 0                                       : runs
federate --deadline 0                                   : deadline
federate --engine flour                                 : did you mean flower?
federate --engine flower --runs 2                        : runs
federate --engine flower --aggregation unbiased          : exact
federate --engine flower --present 0:0                   : present
federate --engine flower --channels measured.h5          : channels
federate --engine flower --device cuda                   : cpu
federate --engine flower --resume                        : resume
federate --engine flower --checkpoint-every 3            : checkpoint-every
federate --aggregation mean                             : exact
federate --partition skewed                             : iid
federate --packet-success always                        : worst-phase
federate --present 500:0                                : present
federate --resample-channels                            : --channels
federate --target 0                                     : target
federate --data nowhere --task imdb                     : imdb
sweep --vary interference 1 -- evalute                  : did you mean evaluate?
sweep --vary interferense 1 -- evaluate                 : did you mean --interference?
sweep --vary interference -- evaluate                   : vary
sweep -- evaluate                                       : --vary
reproduce mnits                                         : did you mean mnist?
reproduce arrivals --processes 0                        : processes
report                                                  : DIR
report nowhere                                          : nowhere
report empty                                            : empty
data --fetch cifar --data here                          : cifar
data --fetch mnist                                      : FEDUPLINK_DATA
evalute                                                 : did you mean evaluate?
--colour                                                : --colour
--completion fish                                       : bash
"""
WRONG = [
    (call.strip(), word.strip())
    for call, _, word in (line.partition(" : ") for line in CALLS.strip().splitlines())
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with some files that are not what they should be."""
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)
    monkeypatch.delenv("FEDUPLINK_TOKEN", raising=False)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.h5").write_text("not HDF5")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("workers: [8\n")
    (tmp_path / "typo.yaml").write_text("wrokers: 8\n")
    return tmp_path


def contents(directory: Path) -> dict[Path, bytes | None]:
    """Everything in it; of interpreters and their caches nothing."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if "__pycache__" not in path.parts
    }


def test_there_are_many_and_of_every_command():
    from feduplink.cli.commands import COMMANDS

    assert len(WRONG) >= 60
    assert {command.name for command in COMMANDS} <= {call.split()[0] for call, _ in WRONG}


#: Refused like this only where the package of an extra is installed; else that is the sentence.
WITH_EXTRA = {
    "check nowhere.h5": "flint",
    "serve --policy nowhere.onnx": "fastapi",
    "serve --max-workers 0": "fastapi",
}


@pytest.mark.parametrize(("call", "word"), WRONG, ids=[call for call, _ in WRONG])
def test_a_wrong_call(run: Run, place: Path, call: str, word: str):
    if package := WITH_EXTRA.get(call):
        pytest.importorskip(package, reason="its extra is not installed")
    before = contents(place)
    sentence = refused(run(*call.split()))
    assert word in sentence
    assert "Traceback" not in sentence
    assert sentence.endswith(".")
    assert contents(place) == before
