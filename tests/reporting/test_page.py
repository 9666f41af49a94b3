from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conftest import MakeRun
from feduplink import InputError, Scenario
from feduplink.reporting.page import (
    read_csv_tables,
    read_figures,
    read_markdown,
    read_sections,
    render_page,
    write_page,
)
from feduplink.storage.run_directory import command, find_runs

CLAIMS = [
    {"claim": "pdg < max", "measured": "0.71 & 0.94", "verdict": "does not hold"},
    {"claim": "the gap is zero", "measured": "0.001", "verdict": "holds"},
    {"claim": "in every cell", "measured": "in five", "verdict": "holds in part"},
]


def _page(*directories: Path) -> str:
    return render_page(read_sections(find_runs(directories)))


def test_a_run_is_a_section_with_its_figures_tables_and_settings(make_run: MakeRun):
    scenario = Scenario(workers=3, rate_min=(0.1, 0.2, 0.3)).model_dump(mode="json")
    with command(["train", "--policy", "pdg"]):
        directory = make_run(
            "run", "a", "b", title="Training of pdg", caption="As it went.", scenario=scenario
        )
    (directory / "comparison.md").write_text("| policy |\n| --- |\n| max |\n")
    (directory / "values.csv").write_text("x,y\n1,2\n")
    page = _page(directory)
    for text in (
        "<h2>Training of pdg</h2>",
        "<p>As it went.</p>",
        "<td>max</td>",
        "values.csv, 1 row<",
        "feduplink train --policy pdg",
        "Settings, seed 3, versions",
        "<dt>workers</dt><dd>3</dd>",
        "<dt>rate_min</dt><dd>0.1, 0.2, 0.3 nats/s/Hz</dd>",
        "<dt>pmax_dbw</dt><dd>-20 dBW</dd>",
        "<dt>coherence_time_s</dt><dd>none</dd>",
        "<figcaption>What a shows</figcaption>",
        "1 run, 2 figures",
        " · took ",
    ):
        assert text in page, text
    assert page.count('<img src="data:image/svg+xml;base64,') == 2
    assert "Claims" not in page
    assert "Contents" not in page


def test_the_policies_of_all_runs_are_explained_once(make_run: MakeRun):
    one = make_run("one", policies={"max": {}, "mine": {}, "tdma": {}})
    page = _page(one, make_run("two", policies={"max": {}}))
    assert page.count("<td><code>max</code></td><td>everyone at full power</td>") == 1
    assert "<code>tdma</code>" in page
    assert "<code>mine</code>" not in page
    assert "What the policies do" not in _page(make_run("three"))


def test_claims_are_collected_at_the_top(make_run: MakeRun, tmp_path: Path):
    make_run("a", title="First", claims=CLAIMS[:1])
    make_run("b", title="Second", claims=CLAIMS[1:])
    page = _page(tmp_path)
    top, *sections = page.split("<section")[1:]
    assert top.count("<tr>") == 1 + 3
    assert re.findall(r'<a href="#(.*?)">(.*?)</a>', top) == [
        ("run-1", "First"),
        ("run-2", "Second"),
        ("run-2", "Second"),
    ]
    assert sections[0].startswith(' id="run-1"')
    assert "pdg &lt; max" in sections[0]
    assert "0.71 &amp; 0.94" in sections[0]
    for sign, verdict in (("✗", "does not hold"), ("✓", "holds"), ("◐", "holds in part")):
        assert f'<span aria-hidden="true">{sign}</span> {verdict}</span>' in top


def test_contents_for_more_than_three_sections(make_run: MakeRun, tmp_path: Path):
    for name in "abc":
        make_run(name)
    assert "<nav" not in _page(tmp_path)
    make_run("d")
    assert _page(tmp_path).split("<nav")[1].split("</nav>")[0].count("<li>") == 4


class _Outside(HTMLParser):
    """The resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data") or (name == "href" and tag != "a"):
                self.loaded.append(value)


def test_the_page_loads_nothing(make_run: MakeRun):
    directory = make_run("run", "a", "b", title="<script>x</script>")
    parser = _Outside()
    page = _page(directory)
    parser.feed(page)
    assert parser.loaded
    assert all(value.startswith(("data:", "#")) for value in parser.loaded)
    assert "script" not in parser.tags
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_equal_runs_give_equal_pages(make_run: MakeRun, tmp_path: Path):
    directory = make_run("run", "a")
    sections = read_sections(find_runs([directory]))
    path = write_page(tmp_path / "out", sections)
    assert path == tmp_path / "out/report.html"
    assert path.read_text(encoding="utf-8") == _page(directory)


def test_a_run_without_provenance_is_a_section(tmp_path: Path):
    (tmp_path / "metrics.json").write_text('{"scenario": {"workers": 8}}')
    page = _page(tmp_path)
    assert "<summary>Settings</summary>" in page
    assert "took" not in page


def test_a_figure_is_its_drawing_with_its_title_as_caption(make_run: MakeRun):
    directory = make_run("run", "line")
    (figure,) = read_figures(directory)
    assert (figure.name, figure.caption) == ("line", "What line shows")
    kind, _, data = figure.source.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == (directory / "line.svg").read_bytes()


def test_a_drawing_without_a_title_has_the_name_of_its_file(tmp_path: Path):
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (figure,) = read_figures(tmp_path)
    assert figure.caption == "a"


def test_a_damaged_drawing_is_named(make_run: MakeRun):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"a\.svg: is damaged"):
        read_figures(directory)


def test_a_directory_without_figures_gives_none(tmp_path: Path):
    assert read_figures(tmp_path) == []


def test_markdown_tables_are_rendered(tmp_path: Path):
    (tmp_path / "a.md").write_text(
        "Title\n\n| policy | PER <= 5 |\n| --- | ---: |\n| `max` | 3 % |\n"
    )
    (html,) = read_markdown(tmp_path)
    assert "<p>Title</p>" in html
    assert '<div class="scroll" tabindex="0" role="region" aria-label="Table a"><table>' in html
    assert "<td><code>max</code></td>" in html
    # What belongs to a number stays on its line.
    assert '<td style="text-align:right">3\N{NO-BREAK SPACE}%</td>' in html
    assert "PER &lt;=\N{NO-BREAK SPACE}5<" in html
    assert "</table></div>" in html


def test_sentences_below_a_table_are_on_lines_of_their_own(tmp_path: Path):
    (tmp_path / "a.md").write_text("| a |\n| --- |\n| 1 |\n\nOne sentence.\nAnother one.\n")
    (html,) = read_markdown(tmp_path)
    assert re.search(r"One sentence\.<br ?/?>\s*Another one\.", html)


@pytest.mark.parametrize(("last", "sticky"), [("verdict", True), ("rate", False)])
def test_a_column_of_verdicts_stays_in_sight(tmp_path: Path, last: str, sticky: bool):
    (tmp_path / "a.md").write_text(f"| policy | {last} |\n| --- | --- |\n| max | x |\n")
    (html,) = read_markdown(tmp_path)
    assert ('<table class="verdict-last">' in html) == sticky


def test_boxes_that_scroll_have_labels_of_their_own(make_run: MakeRun, tmp_path: Path):
    for name in "ab":
        directory = make_run(name, "line", claims=CLAIMS[:1])
        (directory / "table.md").write_text("| a |\n| --- |\n| 1 |\n\n| b |\n| --- |\n| 2 |\n")
        (directory / "values.csv").write_text("x\n1\n")
    page = _page(tmp_path)
    boxes = re.findall(r'<div class="scroll"([^>]*)>', page)
    labels = [re.search(r'aria-label="([^"]+)"', box)[1] for box in boxes]
    assert len(labels) == 1 + 2 * 5  # claims of all; claims, two tables, a figure and CSV of each
    assert len(set(labels)) == len(labels)
    assert all('tabindex="0" role="region"' in box for box in boxes)


@pytest.mark.parametrize(
    ("width", "is_wide"), [("360pt", False), ("756pt", True), ("100%", True), ("", True)]
)
def test_a_phone_scales_narrow_drawings(tmp_path: Path, width: str, is_wide: bool):
    (tmp_path / "a.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}"/>')
    (figure,) = read_figures(tmp_path)
    assert figure.is_wide == is_wide


def test_markdown_gives_neither_html_nor_pictures(tmp_path: Path):
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
    assert len(longest.rows) == 200


@pytest.mark.parametrize("content", [b"", b"a\n\xff\n"])
def test_damaged_csv_is_refused_in_one_sentence(tmp_path: Path, content: bytes):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.csv: is (damaged|not text)"):
        read_csv_tables(tmp_path)


def test_markdown_must_be_text(tmp_path: Path):
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"a\.md: is not text"):
        read_markdown(tmp_path)


@pytest.mark.parametrize(
    ("name", "read"),
    [("a.svg", read_figures), ("a.md", read_markdown), ("a.csv", read_csv_tables)],
)
def test_links_are_not_followed(tmp_path: Path, name: str, read):
    (tmp_path / "secret").write_text("token\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "secret")
    assert read(tmp_path / "run") == []
