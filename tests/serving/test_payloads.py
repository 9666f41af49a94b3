"""Bodies of requests and responses, through the application."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fastapi.testclient import TestClient

from feduplink.errors import InputError
from feduplink.serving import Limits
from feduplink.serving.payloads import csi_from_json

from .conftest import BINARY, JSON, channels, powers_of, refused

NOT_AN_ARRAY = "csi must be an array (L, L) or (N, L, L) of numbers"


@pytest.mark.parametrize("workers", [1, 4, 7])
def test_json_and_binary_bodies_give_the_same_powers(client: TestClient, workers: int):
    csi = channels(5, workers)
    expected = powers_of(csi)
    many = client.post("/v1/allocate", json={"csi": csi.tolist()})
    np.testing.assert_allclose(many.json()["power_w"], expected, rtol=1e-6)
    one = client.post("/v1/allocate", json={"csi": csi[0].tolist()})
    np.testing.assert_allclose(one.json()["power_w"], expected[0], rtol=1e-6)
    binary = client.post(
        f"/v1/allocate?workers={workers}", content=csi.astype("<f4").tobytes(), headers=BINARY
    )
    assert binary.headers["content-type"] == "application/octet-stream"
    powers = np.frombuffer(binary.content, "<f4").reshape(5, workers)
    np.testing.assert_allclose(powers, expected, rtol=1e-6)


def test_the_largest_float32_is_accepted(client: TestClient):
    largest = float(np.finfo(np.float32).max)
    response = client.post("/v1/allocate", json={"csi": [[largest]]})
    assert response.json()["power_w"] == pytest.approx([1 / largest], rel=1e-6)


@pytest.mark.parametrize(
    ("csi", "sentence"),
    [
        ("[[NaN]]", "csi[0][0]: Input should be a finite number"),
        ("[[Infinity]]", "finite number"),
        ("[[1e400]]", "finite number"),
        (f"[[1{'0' * 400}]]", "finite number"),
        ("[[-Infinity]]", "finite number"),
        ("[[1e39]]", "less than or equal to 34028"),
        ("[[3.402823466385289e38]]", "less than or equal to"),  # next after the largest float32
        ("[[-1]]", "csi[0][0]: Input should be greater than 0"),
        ("[[0]]", "greater than 0"),
        ("[[[1, 2], [3, -1]]]", "csi[0][1][1]: Input should be greater than 0"),
        ("[[1e-60]]", "got a negative gain or 0"),  # 0 in float32
        ("[[1, 2]]", "square, (L, L) or (N, L, L); got (1, 2)"),
        ("[[[1, 2]], [[3, 4]]]", "square, (L, L) or (N, L, L); got (2, 1, 2)"),
        ("[[1, 2], [3]]", "rows of equal length"),
        ("[]", "at least 1 item"),
        ("[[]]", "at least 1 item"),
        ("[[[]]]", "at least 1 item"),
        ("[[1, 2], 3]", NOT_AN_ARRAY),
        ("[1]", NOT_AN_ARRAY),
        ("[[[[1]]]]", NOT_AN_ARRAY),
        ("1", NOT_AN_ARRAY),
        ("null", NOT_AN_ARRAY),
        ('"csi"', NOT_AN_ARRAY),
        ('[["1"]]', NOT_AN_ARRAY),
        ("[[true]]", NOT_AN_ARRAY),
        ("[[1, true], [1.5, 1]]", NOT_AN_ARRAY),
        ("[[null]]", NOT_AN_ARRAY),
        ("[[{}]]", NOT_AN_ARRAY),
        (json.dumps([[1.0] * 11] * 11), "workers must be 1 to 10; got 11"),
        (json.dumps([[[1.0]]] * 21), "at most 20 channels; got 21"),
    ],
)
def test_invalid_csi_in_json_is_refused(client: TestClient, csi: str, sentence: str):
    response = client.post("/v1/allocate", content=f'{{"csi": {csi}}}', headers=JSON)
    assert sentence in refused(response, 422)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "body: Invalid JSON"),
        (b'{"csi": [[1]]', "body: Invalid JSON"),
        (b"\xff\xfe", "body: Invalid JSON"),
        (b'{"csi": ' + b"[" * 5000, "body: Invalid JSON: recursion limit exceeded"),
        (b"[[1]]", "body: Input should be an object"),
        (b"{}", "csi: Field required"),
        (b'{"csi": [[1]], "workers": 1}', "workers: Extra inputs are not permitted"),
    ],
)
def test_bodies_without_csi_are_refused(client: TestClient, body: bytes, sentence: str):
    assert sentence in refused(client.post("/v1/allocate", content=body, headers=JSON), 422)


@pytest.mark.parametrize(
    ("query", "body", "sentence"),
    [
        ("", bytes(16), "workers is required with a binary body"),
        ("?workers=2", bytes(15), "positive multiple of 16 bytes, L·L float32 per channel of 2"),
        ("?workers=2", b"", "got 0"),
        ("?workers=3", bytes(16), "channel of 3 workers; got 16"),
        ("?workers=0", bytes(16), "workers: Input should be greater than or equal to 1."),
        ("?workers=10000", bytes(16), "workers: Input should be less than or equal to 10."),
        ("?workers=two", bytes(16), "workers: Input should be a valid integer"),
        ("?workers=1", bytes(4), "negative gain or 0"),
        ("?workers=1", b"\0\0\xc0\x7f", "got NaN or a larger gain"),
        ("?workers=1", np.float32(-1).tobytes(), "negative gain or 0"),
        ("?workers=1", np.ones(21, "<f4").tobytes(), "at most 20 channels; got 21"),
    ],
)
def test_invalid_binary_bodies_are_refused(
    client: TestClient, query: str, body: bytes, sentence: str
):
    response = client.post(f"/v1/allocate{query}", content=body, headers=BINARY)
    assert sentence in refused(response, 422)


def test_workers_in_the_query_must_agree_with_json():
    body = b'{"csi": [[1, 2], [3, 4]]}'
    assert csi_from_json(body, 2, Limits()).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InputError, match=r"number of workers in csi \(2\)"):
        csi_from_json(body, 3, Limits())


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"csi": [[1.0]]}, "bits: Field required"),
        ({"csi": [[1.0]], "bits": 1, "when": 2}, "when: Extra inputs are not permitted"),
        ({"csi": [[1.0]], "bits": 0}, "bits: Input should be greater than 0"),
        ({"csi": [[1.0]], "bits": -1}, "bits: Input should be greater than 0"),
        ({"csi": [[1.0]], "bits": 1e16}, "bits: Input should be less than or equal to"),
        ({"csi": [[1.0]], "bits": True}, "bits: Input should be a valid number"),
        ({"csi": [[1.0]], "bits": "1"}, "bits: Input should be a valid number"),
        ({"csi": [[1.0]], "bits": 1, "kappa": -1}, "kappa: Input should be greater than"),
        ({"csi": [[1.0]], "bits": 1, "kappa": None}, "kappa: Input should be a valid number"),
        ({"csi": [[0.0]], "bits": 1}, "csi[0][0]: Input should be greater than 0"),
        ({"csi": [[1.0, 2.0]], "bits": 1}, "csi must be square"),
        ({"csi": [[1.0] * 11] * 11, "bits": 1}, "workers must be 1 to 10; got 11"),
    ],
)
def test_invalid_schedule_requests_are_refused(client: TestClient, body: dict, sentence: str):
    assert sentence in refused(client.post("/v1/schedule", json=body), 422)


@pytest.mark.parametrize("numbers", ['"bits": NaN', '"bits": 1, "kappa": Infinity'])
def test_schedule_requests_have_finite_numbers(client: TestClient, numbers: str):
    response = client.post("/v1/schedule", content=f'{{"csi": [[1]], {numbers}}}', headers=JSON)
    assert "finite number" in refused(response, 422)
