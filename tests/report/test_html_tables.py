from __future__ import annotations

from pathlib import Path

import pytest

from feduplink import InputError
from feduplink.reporting.page import read_csv_tables, read_markdown


def test_markdown_tables_become_tables(tmp_path: Path):
    (tmp_path / "a.md").write_text(
        "Title\n\n| policy | PER <= 5 |\n| --- | ---: |\n| `max` | 3 % |\n"
    )
    (html,) = read_markdown(tmp_path)
    assert "<p>Title</p>" in html
    assert '<div class="scroll"><table>' in html
    assert "<td><code>max</code></td>" in html
    # What belongs to a number stays on its line.
    assert '<td style="text-align:right">3\N{NO-BREAK SPACE}%</td>' in html
    assert "PER &lt;=\N{NO-BREAK SPACE}5<" in html
    assert "</table></div>" in html


def test_markdown_brings_neither_html_nor_pictures(tmp_path: Path):
    (tmp_path / "a.md").write_text("<script>x</script> ![x](https://example.org/x.png)")
    (html,) = read_markdown(tmp_path)
    assert "<script" not in html
    assert "<img" not in html


def test_short_csv_files_are_tables(tmp_path: Path):
    (tmp_path / "b.csv").write_text('policy,objective\n"a, b",0.5\nmax,\n')
    (tmp_path / "c.csv").write_text("x\n" + "1\n" * 200)
    (tmp_path / "long.csv").write_text("x\n" + "1\n" * 201)
    (tmp_path / "history.csv").write_text("epoch\n1\n")
    small, longest = read_csv_tables(tmp_path)
    assert (small.name, small.header) == ("b.csv", ["policy", "objective"])
    assert small.rows == [["a, b", "0.5"], ["max", ""]]
    assert small.numeric == [False, True]
    assert len(longest.rows) == 200


@pytest.mark.parametrize("content", [b"", b"a,b\n1\n", b"a\n\xff\n"])
def test_damaged_csv_is_one_sentence(tmp_path: Path, content: bytes):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.csv: is (damaged|no text)"):
        read_csv_tables(tmp_path)


def test_markdown_must_be_text(tmp_path: Path):
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"a\.md: is no text"):
        read_markdown(tmp_path)


@pytest.mark.parametrize(("name", "read"), [("a.md", read_markdown), ("a.csv", read_csv_tables)])
def test_a_link_out_of_the_run_is_refused(tmp_path: Path, name: str, read):
    (tmp_path / "secret").write_text("token\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of its run"):
        read(tmp_path / "run")
