"""A worker: an ordinary Flower client, and the mod that says which worker it is."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feduplink.flower import worker_mod
from wireless_digits.task import load_data, make_model, train

app = ClientApp(mods=[worker_mod])


@app.train()
def train_here(message: Message, context: Context) -> Message:
    """Train the global model on this worker's part of the data."""
    worker, workers = int(context.node_config["partition-id"]), int(context.run_config["workers"])
    torch.manual_seed(worker)
    model = make_model()
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    images, labels = (part[:1500][worker::workers] for part in load_data())
    loss = train(model, images, labels)
    metrics = MetricRecord({"loss": loss, "num-examples": len(labels)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
