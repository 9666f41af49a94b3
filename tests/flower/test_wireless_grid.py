"""Strategies of Flower, unchanged, over the uplink: in process, on a grid of the tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from quadratic_app import client_app
from quadratic_app.server_app import SEED, first_model, over_the_uplink, scenario, wireless
from quadratic_app.strategies import STRATEGIES

from feduplink import FullPower, InputError, PerceptronPolicy, Scenario
from feduplink.federated import (
    Rounds,
    UplinkRecord,
    UplinkRules,
    everyone,
    presence,
    transmit,
)
from feduplink.flower import WirelessGrid, worker_mod
from feduplink.policies import Ideal

from .hostile_uploads import BROKEN, LIAR, Lie, lying
from .in_process_grid import InProcessGrid

WORKERS, ROUNDS = 4, 12


def on_the_air(present: torch.Tensor | None = None) -> UplinkRecord:
    """What the local engine computes for the same seed."""
    cell = scenario(WORKERS)
    present = everyone(ROUNDS, WORKERS) if present is None else present
    rounds = Rounds.draw(cell, present, seed=SEED, run=0)
    return transmit(FullPower(cell), rounds, UplinkRules(cell, cell.model_bits(client_app.WEIGHTS)))


def nodes(fails: Callable[[int, int], bool] = lambda worker, exchange: False) -> InProcessGrid:
    return InProcessGrid(client_app.app, WORKERS, fails=fails)


def workers(chosen: torch.Tensor) -> list[int]:
    return chosen.nonzero()[:, 0].tolist()


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategy_receives_the_arrivals(name: str):
    """The same as without a radio, if the nodes fail whose uploads are lost."""
    strategy = STRATEGIES[name]()
    arrived = on_the_air().arrived
    assert 0.2 < arrived.double().mean() < 0.8
    found = over_the_uplink(strategy, nodes(), WORKERS, ROUNDS)
    assert found["arrived"] == arrived.tolist()

    # An exchange of training, and one of evaluation if the strategy evaluates, where none fails.
    per_round = 2 if found["evaluate"] else 1
    bare = nodes(
        lambda worker, exchange: (
            exchange % per_round == 1 % per_round
            and not bool(arrived[(exchange - 1) // per_round, worker])
        )
    )
    expected = STRATEGIES[name]().start(bare, first_model(), num_rounds=ROUNDS)
    np.testing.assert_allclose(
        found["weights"], expected.arrays["weights"].numpy(), rtol=1e-12, atol=0
    )
    for number, metrics in expected.train_metrics_clientapp.items():
        ours = found["train"][str(number)]
        assert {key: ours[key] for key in metrics} == pytest.approx(dict(metrics))
    assert found["evaluate"].keys() == {str(n) for n in expected.evaluate_metrics_clientapp}


def test_other_methods_are_those_of_the_wrapped_grid():
    grid = nodes()
    uplink = wireless(grid, WORKERS, ROUNDS)
    run = object()
    uplink.set_run(run)
    assert grid.run is run
    assert uplink.run is run
    assert list(uplink.get_node_ids()) == grid.get_node_ids()
    assert [info.node_id for info in uplink.get_nodes()] == grid.get_node_ids()
    content = RecordDict({"config": ConfigRecord({"server-round": 1})})
    message = uplink.create_message(content, "train", 1000, "1", ttl=5.0)
    assert message.content == content
    metadata = message.metadata
    assert (metadata.message_type, metadata.dst_node_id, metadata.group_id, metadata.ttl) == (
        *("train", 1000, "1"),
        5.0,
    )


def test_metrics_of_every_round_also_of_those_without_arrivals():
    record = on_the_air()
    train = over_the_uplink(FedAvg(), nodes(), WORKERS, ROUNDS)["train"]
    assert list(train) == [str(n) for n in range(1, ROUNDS + 1)]
    assert min(m["uplink-arrivals"] for m in train.values()) == 0
    for row, metrics in enumerate(train.values()):
        assert metrics["uplink-present"] == WORKERS
        assert metrics["uplink-senders"] == record.transmitting[row].sum()
        assert metrics["uplink-arrivals"] == record.arrived[row].sum()
        assert metrics["uplink-airtime-s"] == record.airtime_s[row]
        assert metrics["uplink-energy-j"] == record.energy_j[row]
        assert metrics["uplink-sent-bytes"] == record.sent_bytes[row]
        # Nothing of the workers' indices; the strategy's own figures stay.
        assert ("loss" in metrics) == (metrics["uplink-arrivals"] > 0)
        assert not any("partition" in key for key in metrics)


def test_round_without_arrivals_does_not_change_the_model():
    arrived = on_the_air().arrived
    empty = next(row for row in range(1, ROUNDS) if not arrived[row].any())
    seen = {}
    FedAvg(fraction_evaluate=0.0).start(
        wireless(nodes(), WORKERS, ROUNDS),
        first_model(),
        num_rounds=ROUNDS,
        evaluate_fn=lambda n, arrays: seen.update({n: arrays["weights"].numpy()}),
    )
    assert (seen[empty + 1] == seen[empty]).all()
    assert any((seen[n + 1] != seen[n]).any() for n in range(ROUNDS))


def test_absent_worker_neither_transmits_nor_interferes():
    gone = presence(ROUNDS, WORKERS, {3: {0, 2}, 5: {0, 1, 2, 3}})
    uplink = wireless(
        nodes(lambda worker, exchange: not bool(gone[exchange - 1, worker])), WORKERS, ROUNDS
    )
    FedAvg(fraction_evaluate=0.0).start(uplink, first_model(), num_rounds=ROUNDS)
    record = on_the_air(gone)
    assert [workers(found.present) for found in uplink.history] == [workers(row) for row in gone]
    for name, values in uplink.record.tensors().items():
        assert torch.equal(values, record.tensors()[name]), name
    # With fewer on the air there is less disturbance.
    assert (record.success[3][[0, 2]] > on_the_air().success[3][[0, 2]]).all()


def test_a_node_that_does_not_reply_in_time_is_absent():
    class OneIsSlow(InProcessGrid):
        """Worker 1 replies at the second look, worker 2 never."""

        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            asked = {self.workers[self.pushed[i].metadata.dst_node_id]: i for i in message_ids}
            some = set(asked) - {2} if set(asked) <= {1, 2} else set(asked) - {1, 2}
            return super().pull_messages([asked[worker] for worker in some])

    uplink = wireless(OneIsSlow(client_app.app, WORKERS), WORKERS, ROUNDS)
    uplink.send_and_receive(_messages(uplink, 1), timeout=1.0)
    assert workers(uplink.history[0].present) == [0, 1, 3]


def test_failures_follow_the_arrivals():
    uplink = wireless(nodes(lambda worker, exchange: worker == 1), WORKERS, ROUNDS)
    for number in range(1, ROUNDS + 1):
        replies = uplink.send_and_receive(_messages(uplink, number))
        found = [reply.metadata.src_node_id for reply in replies if reply.has_content()]
        assert found == sorted(found, reverse=True)  # node ids fall as workers rise
        assert [reply.has_error() for reply in replies] == [False] * len(found) + [True]


def test_push_and_pull_equal_send_and_receive():
    at_once, in_parts = (wireless(nodes(), WORKERS, ROUNDS) for _ in range(2))
    for number in range(1, ROUNDS + 1):
        expected = at_once.send_and_receive(_messages(at_once, number))
        ids = in_parts.push_messages(_messages(in_parts, number))
        assert in_parts.pull_messages(ids[:3]) == []
        assert in_parts.pull_messages(ids[:3]) == []
        replies = in_parts.pull_messages(ids)
        assert [r.metadata.src_node_id for r in replies] == [
            r.metadata.src_node_id for r in expected
        ]
    for name, values in in_parts.record.tensors().items():
        assert torch.equal(values, at_once.record.tensors()[name]), name


def test_evaluation_messages_pass_unchanged():
    uplink = wireless(nodes(), WORKERS, ROUNDS)
    replies = uplink.send_and_receive(_messages(uplink, 1, "evaluate"))
    assert len(replies) == WORKERS and uplink.history == []
    assert len(uplink.pull_messages(uplink.push_messages(_messages(uplink, 1, "evaluate")))) == 4
    assert all(not reply.content.config_records for reply in replies)


def test_round_is_that_of_the_messages():
    arrived = on_the_air().arrived
    uplink = wireless(nodes(), WORKERS, ROUNDS)
    for number in (3, 7):
        uplink.send_and_receive(_messages(uplink, number))
    assert [found.number for found in uplink.history] == [3, 7]
    assert torch.equal(uplink.record.arrived, arrived[[2, 6]])
    with pytest.raises(InputError, match="training of round 7 after round 7; accepted"):
        uplink.send_and_receive(_messages(uplink, 7))
    with pytest.raises(InputError, match="training of round 13 after round 7; accepted"):
        uplink.push_messages(_messages(uplink, 13))


def test_undefined_time_and_energy_are_omitted():
    cell = scenario(WORKERS)
    uplink = WirelessGrid(nodes(), cell, Ideal(cell), rounds=2)
    result = FedAvg(fraction_evaluate=0.0).start(uplink, first_model(), num_rounds=2)
    uplink.add_metrics(result)
    assert uplink.record.airtime_s.isnan().all()
    assert uplink.record.arrived.all()
    assert "uplink-airtime-s" not in result.train_metrics_clientapp[1]


def test_a_client_without_the_mod_is_refused():
    app = ClientApp()
    app.train()(client_app.train)
    uplink = wireless(InProcessGrid(app, WORKERS), WORKERS, ROUNDS)
    with pytest.raises(InputError, match=r"has no worker index; accepted: .*worker_mod"):
        uplink.send_and_receive(_messages(uplink, 1))


@pytest.mark.parametrize("index", [1, WORKERS])
def test_duplicate_and_unknown_workers_are_refused(index: int):
    grid = nodes()
    grid.contexts[min(grid.contexts)].node_config["partition-id"] = index
    uplink = wireless(grid, WORKERS, ROUNDS)
    with pytest.raises(InputError, match=f"partition-id: {index} .* accepted: 0 to 3, one node"):
        uplink.send_and_receive(_messages(uplink, 1))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (-1, "partition-id: -1 .* accepted: 0 to 3"),
        ("0", "has no worker index"),
        (True, "has no worker index"),
    ],
)
def test_invalid_worker_index_in_a_reply_is_refused(index: object, message: str):
    def lying_mod(asked: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        reply = call_next(asked, context)
        reply.content["feduplink.worker"]["partition-id"] = index
        return reply

    app = ClientApp(mods=[lying_mod, worker_mod])
    app.train()(client_app.train)
    uplink = wireless(InProcessGrid(app, WORKERS), WORKERS, ROUNDS)
    with pytest.raises(InputError, match=message):
        uplink.send_and_receive(_messages(uplink, 1))


@pytest.mark.parametrize("index", [None, -1, "0", True])
def test_node_without_index_is_refused(index: object):
    grid = nodes()
    (message, *_) = _messages(grid, 1)
    grid.push_messages([message])
    config = {} if index is None else {"partition-id": index}
    with pytest.raises(InputError, match="accepted: the worker's index from 0"):
        worker_mod(
            message,
            Context(1, 1, config, RecordDict(), {}),
            lambda message, context: Message(RecordDict(), reply_to=message),
        )


def test_policy_of_fixed_size_refuses_absent_nodes():
    cell = scenario(WORKERS)
    grid = nodes(lambda worker, exchange: worker == 1)
    uplink = WirelessGrid(grid, cell, PerceptronPolicy(cell), rounds=1)
    with pytest.raises(InputError, match="takes exactly 4 workers"):
        uplink.send_and_receive(_messages(uplink, 1))


def federated(app: ClientApp, fails: bool = False) -> tuple[np.ndarray[Any, Any], WirelessGrid]:
    """Three rounds of Flower's FedAvg; ``fails``: worker 1 fails from the second round on."""
    grid = InProcessGrid(
        app, 3, fails=lambda worker, exchange: fails and worker == LIAR and exchange > 1
    )
    uplink = WirelessGrid(grid, Scenario(workers=3), Ideal(Scenario(workers=3)), rounds=3)
    result = FedAvg(fraction_evaluate=0.0).start(uplink, first_model(), num_rounds=3)
    assert result.arrays is not None
    return result.arrays["weights"].numpy(), uplink


@pytest.mark.parametrize("lie", BROKEN.values(), ids=list(BROKEN))
def test_an_unusable_upload_counts_as_a_failed_node(lie: Lie, caplog: pytest.LogCaptureFixture):
    expected, alone = federated(lying(client_app.train, lambda content: None), fails=True)
    with caplog.at_level(logging.INFO, "flwr"):
        found, uplink = federated(lying(client_app.train, lie))
    assert (found == expected).all()
    for name, values in uplink.record.tensors().items():
        torch.testing.assert_close(values, alone.record.tensors()[name], equal_nan=True)
    assert [workers(r.present) for r in uplink.history] == [[0, 1, 2], [0, 2], [0, 2]]
    assert sum("the upload of worker 1 is ignored" in message for message in caplog.messages) == 2


def test_reply_is_an_upload_whatever_its_message_type():
    def another_type(asked: Message, context: Context, call_next: Any) -> Message:
        reply = call_next(asked, context)
        reply.metadata.message_type = "query"
        return reply

    app = ClientApp(mods=[another_type, worker_mod])
    app.train()(client_app.train)
    cell = Scenario(workers=3)
    uplink = WirelessGrid(InProcessGrid(app, 3), cell, FullPower(cell), rounds=1, deadline_s=1e-6)
    FedAvg(fraction_evaluate=0.0).start(uplink, first_model(), num_rounds=1)
    assert uplink.history[0].present.all()
    assert not uplink.record.arrived.any()


def test_uploads_without_arrays_have_the_size_of_one_number():
    def nothing(message: Message, context: Context) -> Message:
        return Message(RecordDict(), reply_to=message)

    app = ClientApp(mods=[worker_mod])
    app.train()(nothing)
    cell = Scenario(workers=3)
    uplink = WirelessGrid(InProcessGrid(app, 3), cell, FullPower(cell), rounds=1)
    messages = FedAvg().configure_train(1, first_model(), ConfigRecord(), uplink)
    replies = uplink.send_and_receive(messages)
    assert 0 < uplink.record.airtime_s < 0.01
    assert uplink.record.sent_bytes == 4 * 3
    assert len(replies) == uplink.record.arrived.sum()


def _messages(
    grid: WirelessGrid | InProcessGrid, number: int, kind: str = "train"
) -> list[Message]:
    strategy = FedAvg()

    configure = strategy.configure_train if kind == "train" else strategy.configure_evaluate
    return list(configure(number, first_model(), ConfigRecord(), grid))
