from __future__ import annotations

import pytest

from feduplink.files import replaced_atomically, write_json


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    file = tmp_path / "metrics.json"
    write_json(file, {"objective": 0.9})
    before = file.read_bytes()

    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(file, {"objective": float("nan")})
    with pytest.raises(RuntimeError), replaced_atomically(file) as temporary:
        temporary.write_text("half of")
        raise RuntimeError

    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_makes_the_directories_it_needs(tmp_path):
    file = tmp_path / "run" / "1" / "metrics.json"
    write_json(file, {})
    assert file.read_text() == "{}\n"
