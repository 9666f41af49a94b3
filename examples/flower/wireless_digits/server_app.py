"""The server: any strategy of Flower, with a wireless uplink before it."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from feduplink import Scenario, make_policy
from feduplink.flower import WirelessGrid
from wireless_digits.task import accuracy, make_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Federate over the uplink and print what came of every round."""
    config = context.run_config
    rounds, workers = int(config["rounds"]), int(config["workers"])
    torch.manual_seed(0)
    model = make_model()

    def evaluate(_number: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model)})

    scenario = Scenario(workers=workers)
    policy = make_policy(str(config["policy"]), scenario)
    uplink = WirelessGrid(grid, scenario, policy, rounds=rounds, seed=0)
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=workers)
    first = ArrayRecord(model.state_dict())
    result = strategy.start(uplink, first, num_rounds=rounds, evaluate_fn=evaluate)
    for number, metrics in uplink.add_metrics(result).train_metrics_clientapp.items():
        print(f"round {number}:", {**metrics, **result.evaluate_metrics_serverapp[number]})
