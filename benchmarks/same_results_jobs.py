"""The jobs of ``same_results.py``: small command lines that cover every command and engine.

No job depends on a time limit: proofs run to their target gap on problems that are small enough,
or not at all. ``demo`` has a limit of its own (20 s for its proof), which takes well below 1 s on
the three workers that it runs with here. Jobs on air quality, reviews and MNIST need
``FEDUPLINK_DATA``.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Request:
    """One HTTP request to a service.

    Attributes:
        name: of the file with the answer.
        path: with its query.
        body: an object to be sent as JSON, bytes to be sent as they are, or None for GET.
        until_false: a field of the JSON answer; the request is repeated until it is false.
        kept: what of the body is kept.
    """

    name: str
    path: str
    body: object = None
    until_false: str = ""
    kept: Callable[[str], str] = str


@dataclass(frozen=True)
class Job:
    """A command line whose results are compared.

    Attributes:
        name: of the job and of its directory, which is added as ``--out``.
        line: the words after ``feduplink``; runs in the directory of all jobs.
        instead: lines tried in turn where a version refuses ``line`` for an option or value that
            it does not have.
        program: Python code to run instead of ``-m feduplink``, with the same words.
        interrupted_at: a file of its directory; the command is killed once the file exists, and
            continued by ``--resume``.
        requests: sent to the service that the command starts; then it is stopped.
        out: whether the command takes ``--out``.
        needs: environment variables without which the job is left out.
    """

    name: str
    line: str
    instead: tuple[str, ...] = ()
    program: str = ""
    interrupted_at: str = ""
    requests: tuple[Request, ...] = ()
    out: bool = True
    needs: tuple[str, ...] = ()


def gains(count: int, workers: int) -> list[list[list[float]]]:
    """Fixed channels (count, workers, workers), exact in float32."""
    numbers = random.Random(7)
    return [
        [
            [
                float(round(2.0 ** numbers.uniform(9, 17) * (64 if row == column else 1)))
                for column in range(workers)
            ]
            for row in range(workers)
        ]
        for _ in range(count)
    ]


def _binary(channels: list[list[list[float]]]) -> bytes:
    flat = [gain for channel in channels for row in channel for gain in row]
    return struct.pack(f"<{len(flat)}f", *flat)


def _names_of_metrics(text: str) -> str:
    """The names and labels of Prometheus metrics, without their values."""
    return "\n".join(sorted({line.rpartition(" ")[0] for line in text.splitlines()}))


_SCENE = {
    "workers": [
        {"id": 0, "x_m": -210, "y_m": 40},
        {"id": 1, "x_m": 330, "y_m": 120},
        {"id": 5, "x_m": 20, "y_m": -400},
    ],
    "pmax_dbw": -22,
    "interference": 2,
    "rate_min": 0.5,
    "ee_min": 40,
    "seed": 3,
}
_SCHEDULED = {"csi": gains(1, 4)[0], "bits": 1e6}
_ALLOCATIONS = (
    Request("powers", "/v1/allocate", {"csi": gains(3, 4)}),
    Request("powers-of-one", "/v1/allocate", {"csi": gains(1, 4)[0]}),
    Request("powers-binary", "/v1/allocate?workers=4", _binary(gains(3, 4))),
    Request("policy", "/v1/policy"),
    Request("refused-field", "/v1/allocate", {"gains": []}),
    Request("refused-shape", "/v1/allocate", {"csi": [[1.0, 2.0]]}),
    Request("refused-gain", "/v1/allocate", {"csi": [[1.0, -2.0], [1.0, 1.0]]}),
    Request("refused-type", "/v1/allocate", b"1"),
    Request("health", "/healthz"),
)
_REQUESTS = (
    *_ALLOCATIONS,
    Request("powers-of-many", "/v1/allocate", {"csi": gains(5, 7)}),
    Request("schedule", "/v1/schedule", _SCHEDULED),
    Request("schedule-priced", "/v1/schedule", {**_SCHEDULED, "kappa": 20}),
    Request("schedules", "/v1/schedule", {"csi": gains(2, 4), "bits": 1e6, "kappa": 5}),
    Request("refused-bits", "/v1/schedule", {"csi": gains(1, 2)[0], "bits": 0}),
    Request("cell", "/v1/cell"),
    Request("scene", "/v1/scene", _SCENE, until_false="searching"),
    Request("refused-scene", "/v1/scene", {**_SCENE, "interference": 1e9}),
    Request("page", "/", kept=lambda text: text.partition("\n")[0]),
    Request("missing", "/nowhere"),
    Request("metrics", "/metrics", kept=_names_of_metrics),
)

#: ``reproduce --quick`` at a smaller scale still: every experiment in seconds, no time limits.
_TINY_EXPERIMENTS = """
import sys
from dataclasses import replace
try:
    from feduplink.experiments import context as scale
    scale.QUICK
except (AttributeError, ImportError):  # before the scale stood with the context
    from feduplink.experiments import scale
scale.QUICK = replace(
    scale.QUICK, seeds=2, channels=30, verdict_channels=60, epochs=3, solved_channels=40,
    proof_s=0.0, runs=1, noniid_runs=1, rounds=2, text_rounds=1,
    text_size=replace(scale.QUICK.text_size, train=80, test=40, words=200, length=8, hidden=4),
)
try:
    from feduplink.cli.command_line import main
except ImportError:  # before the overview had a module of its own
    from feduplink.cli import main
sys.exit(main(sys.argv[1:]))
"""

_DATA = ("FEDUPLINK_DATA",)
_SMALL = "--channels-per-split 200"
_EVERY_POLICY = "rand,rand:unselected,orth,orth:unselected,max,openloop"

_JOBS = (
    Job("channels", "channels --count 60 --antenna-coefficients"),
    Job(
        "channels-kept",
        "channels --count 30 --workers 5 --channel-model hata-urban-shadowed --geometry kept "
        "--speed-mps 3 --base-stations 3 --seed 3",
    ),
    Job("channels-sionna", "channels --count 3 --workers 3 --channel-model sionna-umi"),
    # Training
    Job("pdg", f"train --policy pdg --epochs 6 {_SMALL}"),
    Job("pdm", f"train --policy pdm --epochs 6 {_SMALL} --csi-noise 1e4 --tensorboard"),
    Job("pdg-paper", f"train --policy pdg --preset paper --epochs 4 {_SMALL}"),
    Job("pdm-paper", f"train --policy pdm --preset paper --epochs 4 {_SMALL}"),
    Job(
        "pdg-subsets",
        f"train --policy pdg --epochs 4 {_SMALL} --subset-workers 4 --fresh-channels "
        "--no-transposed-graph --no-bias",
    ),
    Job(
        "pdg-resumed",
        f"train --policy pdg --epochs 24 {_SMALL} --checkpoint-every 2",
        interrupted_at="checkpoint.safetensors",
    ),
    Job(
        "pdm-recorded",
        "train --policy pdm --epochs 4 --channels channels/channels.h5 --rate-min 0.5",
    ),
    Job("pdx", "train --policy pdx --steps 100 --batch-size 4 --workers 3 --channels-per-split 40"),
    Job(
        "pdx-everything",
        "train --policy pdx --everything --steps 100 --batch-size 4 --workers 3 "
        "--channels-per-split 40",
    ),
    Job(
        "pdx-resumed",
        "train --policy pdx --everything --steps 400 --batch-size 4 --workers 3 "
        "--channels-per-split 40",
        interrupted_at="checkpoint.safetensors",
    ),
    Job("phase-network", "train --policy learned-schedule --steps 100 --batch-size 2"),
    # Evaluation
    Job("policies", f"evaluate {_SMALL} --policies {_EVERY_POLICY},pdx,./pdg,./pdm"),
    Job(
        "recorded",
        "evaluate --channels channels/channels.h5 --optimum --budget-s 0 "
        "--policies rand,orth,max,openloop,dual,pdx",
    ),
    Job("defaults", "evaluate --channels-per-split 60 --workers 3 --optimum --budget-s 600"),
    Job(
        "shadowed",
        f"evaluate {_SMALL} --channel-model hata-urban-shadowed --geometry kept --speed-mps 3 "
        "--base-stations 3 --policies rand,orth,max,openloop",
    ),
    Job(
        "noisy",
        "evaluate --scenario interference-x4 --workers 4 --channels-per-split 60 --seed 5 "
        f"--csi-noise 1e5 --policies {_EVERY_POLICY},dual,pdx",
    ),
    Job(
        "limits",
        "evaluate --channels-per-split 60 --workers 3 --time-max-s 20 --energy-max-j 0.4 "
        "--model-bits 1e6 --bits-per-weight 16 --compute-energy-j-per-bit 1e-9 "
        "--weights uniform --policies max,openloop,dual,pdx --optimum --budget-s 600",
    ),
    Job(
        "own-policy",
        "evaluate --channels-per-split 60 --workers 4 --channel-model complex_gains:Mmse "
        "--antennas 4 --objective rate --rate-min 0 --ee-min 0 --policies max,wmmse_policy:Wmmse",
    ),
    # The optimum and its proof
    Job("optimum", "optimum --channels-per-split 60 --budget-s 0 --confidence 0.95"),
    Job(
        "optimum-fair",
        "optimum --channels-per-split 40 --budget-s 0 --utility proportional-fairness",
    ),
    Job(
        "optimum-rate",
        "optimum --channels-per-split 40 --budget-s 0 --objective rate --interference 4",
    ),
    Job(
        "optimum-efficiency",
        "optimum --channels-per-split 40 --budget-s 0 --objective energy_efficiency "
        "--rate-min 0.3,0.4,0,0.6 --workers 4 --static-power 0.01,0.02,0.01,0.03",
    ),
    Job(
        "optimum-constrained",
        "optimum --channels-per-split 30 --workers 4 --budget-s 0 "
        "--constraints 'average_power:AveragePower <= 0.003'",
    ),
    Job(
        "optimum-proved",
        "optimum --workers 4 --interference 8 --channels-per-split 12 --budget-s 600 "
        "--confidence 0.9 --certificate optimum-proved.h5",
    ),
    Job(
        "optimum-proved-rate",
        "optimum --workers 3 --interference 8 --objective rate --channels-per-split 8 "
        "--budget-s 600 --certificate optimum-proved-rate.h5",
    ),
    Job(
        "optimum-recorded",
        "optimum --channels channels-kept/channels.h5 --whole-file --budget-s 0 "
        "--certificate optimum-recorded.h5",
    ),
    Job("check", "check optimum-proved.h5 --processes 1", out=False),
    Job(
        "check-recorded",
        "check optimum-recorded.h5 --channels channels-kept/channels.h5",
        out=False,
    ),
    # Export and service
    Job("export", "export --policy pdx --workers 4 --channels-per-split 60"),
    Job("export-pdg", "export --policy ./pdg"),
    Job("export-pdm", "export --policy ./pdm"),
    Job(
        "serve",
        "serve --policy pdx --interference 2 --port 0 --max-seconds 600",
        requests=_REQUESTS,
        out=False,
    ),
    Job(
        "serve-onnx",
        "serve --policy export/policy.onnx --port 0 --max-seconds 600",
        requests=_ALLOCATIONS,
        out=False,
    ),
    # Schedules
    Job("schedule", "schedule --channels-per-split 6 --workers 4 --kappa 0,10"),
    Job(
        "schedule-proved",
        "schedule --channels-per-split 3 --workers 3 --kappa 0,30 --budget-s 600 "
        "--policies max,pdx",
    ),
    Job(
        "schedule-delivery",
        "schedule --channels-per-split 12 --workers 4 --kappa 5 --delivery 0.5,0.9,1,0.7 "
        "--policies openloop",
    ),
    Job(
        "schedule-recorded",
        "schedule --channels channels-kept/channels.h5 --kappa 0 --csi-noise 1e4 "
        "--model-weights 1000 --policies max",
    ),
    # Federations
    Job(
        "federated",
        "federate --task digits --rounds 6 --runs 2 --policies ideal,tdma,ofdma,max,openloop,./pdg",
    ),
    Job(
        "federated-published",
        "federate --task digits --rounds 6 --aggregation published --partition dirichlet "
        "--deadline 12 --policies ideal,rand,orth:unselected",
    ),
    Job(
        "federated-unbiased",
        "federate --task digits --rounds 6 --aggregation unbiased --partition gaussian "
        "--packet-success every-phase --deadline 9 --present '0:0,1,2,3,4;3:2,3,4,5,6,7' "
        "--target 0.5 --policies rand,max,pdx,tdma",
    ),
    Job(
        "federated-schemes",
        "federate --task digits --workers 4 --rounds 3 --kappa 10 "
        "--policies ideal,tdma,ofdma,fixed-power,schedule,learned-schedule",
    ),
    Job(
        "federated-delivery",
        "federate --task digits --workers 4 --rounds 4 --delivery 0.5 --kappa 2 "
        "--partition dirichlet --policies schedule,max",
    ),
    Job(
        "federated-resumed",
        "federate --task digits --rounds 30 --policies ideal,openloop,tdma --checkpoint-every 2",
        interrupted_at="federated.safetensors",
    ),
    Job(
        "federated-recorded",
        "federate --task digits --rounds 8 --channels channels/channels.h5 --resample-channels "
        "--policies ideal,openloop,dual",
    ),
    Job(
        "federated-own",
        "federate --task cnn_task:task --aggregation server_momentum:Momentum --rounds 3 "
        "--policies ideal,max",
    ),
    Job(
        "federated-mnist",
        "federate --task mnist --rounds 2 --policies ideal,max --partition dirichlet",
        needs=_DATA,
    ),
    Job(
        "federated-airquality",
        "federate --task airquality --rounds 2 --policies ideal,max",
        needs=_DATA,
    ),
    Job(
        "flower",
        "federate --engine flower --workers 2 --rounds 2 --policies max,tdma --deadline 9",
    ),
    # What is built on the others
    Job(
        "sweep",
        "sweep --vary interference 1 4 --vary pmax-dbw -30 -20 --processes 2 --figure "
        "participation -- evaluate --policies max,openloop --channels-per-split 50",
    ),
    Job(
        "sweep-federated",
        "sweep --vary seed 0 1 --processes 1 -- federate --task digits --rounds 2 "
        "--policies ideal,max",
    ),
    Job(
        "reproduce",
        "reproduce --quick --processes 1 convergence interference pmax network-size csi-noise "
        "power-histogram arrivals optimality-gap noniid-data aggregation",
        program=_TINY_EXPERIMENTS,
    ),
    Job(
        "reproduce-federations",
        "reproduce --quick --processes 1 airquality mnist noniid",
        program=_TINY_EXPERIMENTS,
        needs=_DATA,
    ),
    Job(
        "reproduce-costs",
        "reproduce --quick --processes 1 time-energy time-energy-airquality",
        program=_TINY_EXPERIMENTS,
        needs=_DATA,
    ),
    Job(
        "reproduce-reviews",
        "reproduce --quick --processes 1 imdb time-energy-imdb",
        program=_TINY_EXPERIMENTS,
        needs=_DATA,
    ),
    Job("demo", "demo --workers 3"),
    Job("report", "report policies schedule federated pdg optimum sweep demo reproduce"),
    Job("data", "data --verify", needs=_DATA),
)


def _as_before(line: str) -> str:
    """The line in the words of the version before options were declared by the workflows."""
    return line.replace("--optimum --budget-s", "--optimum").replace("--budget-s", "--budget")


JOBS = tuple(
    replace(job, instead=(*job.instead, _as_before(job.line)))
    if _as_before(job.line) != job.line
    else job
    for job in _JOBS
)


@dataclass(frozen=True)
class Explained:
    """A difference between versions that is intended.

    Attributes:
        pattern: of the place, as the comparison prints it: "JOB/FILE#PLACE", for texts with
            " (words)" or " (numbers)".
        reason: why it is intended.
        within: largest difference of numbers, relative to the largest of them; None: any.
    """

    pattern: str
    reason: str
    within: float | None = None


_AUTOGRAD = "the gradient of pdg's graph convolution is automatic: another order of operations"
_BOXES = "without a time limit the proof counts boxes: it stops elsewhere"
_PHASES = "tdma and ofdma are schedules: their time and energy are sums over phases"
_TABLES = (
    "tables: feasible, infeasible, inconclusive for met, missed, open; margins for shortfalls; one "
    "line per header. Their numbers stand in metrics.json, which is compared"
)
EXPLAINED = (
    # Checkpoints and saved results
    Explained(
        r".*/(checkpoint|federated)\.safetensors#(header .*|tensor .*)",
        "checkpoints have a format number, names, settings and a checksum of the data instead of "
        "checksums of source code; training's are packed as results are; the policies of a "
        "federation stand in the order given",
    ),
    Explained(r".*/(result\.safetensors|call\.json)(#.*)?", "results can be read back"),
    Explained(r".*/metrics\.json#/(result|notes/.*|test/.*)", "new entries of a result"),
    Explained(
        r".*/metrics\.json#/policies/.*/delivered(_least)?(/.*)?",
        "federations report the share of rounds in which each worker's model arrives",
    ),
    Explained(
        r"demo/(federated/)?metrics\.json#/(engine|partition|aggregation|kappa_s_per_j|delivery/.*"
        r"|deadline_s|packet_success|present|channels/.*)",
        "the demo calls the workflows, which write their settings",
    ),
    Explained(r"reproduce[a-z-]*/.*\.json", "results of figures stand as JSON beside the CSV"),
    Explained(
        r"(phase-network|pdx[a-z-]*)(/.*|\.stdout#.*)",
        "the training of networks gives what every training gives: policy, history, plot, verdict",
    ),
    Explained(r"demo/pd[mg]/history\.csv", "a history has a file only where --out is its own"),
    Explained(
        r"sweep(-federated)?/(metrics\.json#/(command|varied|verb|scenario)(/.*)?"
        r"|sweep\.(csv|md)#.*)"
        r"|report/metrics\.json#/report/sections/\d+/title.*",
        "a sweep calls a job by its name with its options as they are called in Python",
    ),
    # Words
    Explained(r".*\.stdout#text.*|.*\.md#text.*|.*/report\.html#text.*", _TABLES),
    Explained(r".*\.png#pixels", "figures have legends, words and colours of the new tables"),
    Explained(
        r".*/metrics\.json#/(claims/\d+/(claim|measured)|caption|title) \((words|numbers)\)"
        r"|.*@description.*",
        "claims, captions and titles are reworded; their numbers stand in the CSV, which is "
        "compared",
    ),
    Explained(
        r"serve[a-z-]*/\d+-refused-[a-z]*\.json#/body/.*|serve/\d+-metrics\.json#.*",
        "the service describes and refuses requests by its pydantic models and counts with "
        "prometheus_client",
    ),
    # Numbers
    Explained(
        r".*/(metrics\.json|policy\.safetensors|history\.csv)#.*pd[gx].*|pdg.*/(metrics\.json#.*"
        r"|policy\.safetensors#.*|history\.csv#.*)",
        _AUTOGRAD,
        within=4e-6,
    ),
    Explained(r"export-pdg/(policy\.onnx#initializers|metrics\.json#/difference.*)", _AUTOGRAD),
    Explained(
        r"demo/(pdg/.*|metrics\.json#/(policies|below_optimum)/pdg.*"
        r"|federated/metrics\.json#/policies/pdg/.*)",
        f"{_AUTOGRAD}; over 100 epochs another one is the best",
    ),
    Explained(r".*/metrics\.json#/policies/(tdma|ofdma)/.*", _PHASES, within=1e-15),
    Explained(r"serve/\d+-scene\.json#/body/orthogonal/.*", _PHASES, within=1e-15),
    Explained(
        r"federated-unbiased/metrics\.json#/policies/tdma/runs/0/transmitting/\d+",
        "with a deadline, workers whose slot begins after it do not transmit",
    ),
    Explained(r"serve/\d+-schedule-priced\.json#/body/phases/.*", _PHASES, within=1e-14),
    Explained(
        r"optimum[a-z-]*/(allocations\.h5#upper_bound"
        r"|metrics\.json#/optimum/(upper_bound|gap|relative_gap|boxes))"
        r"|optimum-proved\.h5#(bounds|statement|tangents|tree).*",
        _BOXES,
    ),
    Explained(r"optimum-recorded(\.h5#policy/power|/allocations\.h5#power)", _PHASES, within=1e-15),
    Explained(
        r"serve/\d+-(powers.*|policy)\.json#.*",
        "a multiplier that the descent leaves at zero is raised where its constraint is violated",
        within=2e-3,
    ),
    Explained(
        r"reproduce/(interference|optimality-gap)/[a-z-]*\.csv#column .*",
        "a multiplier that the descent leaves at zero is raised where its constraint is violated",
        within=2e-3,
    ),
    Explained(
        r"reproduce-costs/time-energy(-airquality)?/[a-z-]*\.csv#column .*",
        "rewards for a share of deliveries are learned from as many channels as the scale of the "
        "experiments solves, 40 here; before from 512 at every scale",
    ),
)
#: Places that were renamed: a pattern of the old "JOB/FILE#PLACE" and its replacement.
RENAMED: tuple[tuple[str, str], ...] = ()
