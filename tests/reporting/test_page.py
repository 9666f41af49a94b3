from __future__ import annotations

import re
import struct
import zlib
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
        "<dt>rate_min</dt><dd>0.1, 0.2, 0.3</dd>",
        "<dt>coherence_time_s</dt><dd>none</dd>",
        "<figcaption>What a shows</figcaption>",
        "1 run, 2 figures",
        " · took ",
    ):
        assert text in page, text
    assert page.count("<svg") == page.count('role="img"') == 2
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
    (directory / "b.svg").unlink()
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


def test_drawings_use_the_colours_of_the_page(make_run: MakeRun):
    (figure,) = read_figures(make_run("run", "line"), "p")
    assert (figure.name, figure.caption, figure.width) == ("line", "What line shows", 4 * 96)
    assert figure.html.startswith("<svg")
    assert 'role="img" aria-label="What line shows"' in figure.html
    for role in ("ink", "paper", "grid"):
        assert f"var(--{role})" in figure.html
    colours = set(re.findall(r"#[0-9a-f]{6}\b", figure.html))
    assert colours == {"#0072b2"}


def test_ids_of_drawings_are_unique_and_referenced(make_run: MakeRun):
    directory = make_run("run", "a", "b")
    ids: list[str] = []
    for prefix in ("p", "q"):
        for figure in read_figures(directory, prefix):
            own = re.findall(r' id="([^"]+)"', figure.html)
            references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', figure.html)
            assert references
            assert {one or other for one, other in references} <= set(own)
            ids += own
    assert len(ids) == len(set(ids))


def test_a_picture_without_a_drawing_is_embedded(make_run: MakeRun):
    directory = make_run("run", "a")
    (directory / "a.svg").unlink()
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith('<img src="data:image/png;base64,')
    assert 'alt="What a shows"' in figure.html
    assert figure.width == 4 * 96


@pytest.mark.parametrize(
    "intruder",
    [
        "<script>alert(1)</script>",
        "<foreignObject/>",
        '<path onclick="alert(1)"/>',
        '<path style="fill: url(https://example.org/a.svg#b)"/>',
        '<use xlink:href="https://example.org/a.svg#b"/>',
        '<image href="https://example.org/a.png"/>',
        '<path ONCLICK="alert(1)"/>',
        '<path OnLoad="alert(1)"/>',
        '<image HREF="https://example.org/a.png"/>',
        '<path style="fill: URL(https://example.org/a.svg#b)"/>',
        '<path style="fill: u\\72l(https://example.org/a.svg#b)"/>',
        '<path style="background: #fff"/>',
        '<path class="x"/>',
        '<use xlink:href="DATA:text/html,x"/>',
        '<image xlink:href="data:image/svg+xml;base64,AAAA"/>',
        '<path transform="translate(1) url(x)"/>',
        "<SCRIPT>alert(1)</SCRIPT>",
        '<animate attributeName="href" to="javascript:alert(1)"/>',
        '<a xlink:href="javascript:alert(1)"/>',
        "<g>" * 60 + "</g>" * 60,
    ],
)
def test_a_drawing_with_other_elements_is_replaced_by_its_picture(make_run: MakeRun, intruder: str):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    file.write_text(file.read_text().replace("</svg>", f"{intruder}</svg>"))
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith("<img")
    (directory / "a.png").unlink()
    assert read_figures(directory, "p") == []


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_damaged_files_are_named(make_run: MakeRun, suffix: str):
    directory = make_run("run", "a")
    for path in (directory / "a.svg", directory / "a.png"):
        if path.suffix == suffix:
            path.write_bytes(path.read_bytes()[:-300])
        else:
            path.unlink()
    with pytest.raises(InputError, match=f"a{suffix}: is damaged"):
        read_figures(directory, "p")


def test_a_directory_without_figures_gives_none(tmp_path: Path):
    assert read_figures(tmp_path, "p") == []


def test_drawings_with_entities_are_replaced(make_run: MakeRun):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    file.write_text(re.sub(r"<!DOCTYPE[^>]*>", bomb, file.read_text()))
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith("<img")


@pytest.mark.parametrize("attribute", ["width", "height"])
def test_a_drawing_without_a_size_is_replaced(make_run: MakeRun, attribute: str):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    file.write_text(re.sub(rf' {attribute}="[^"]*pt"', "", file.read_text(), count=1))
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith("<img")


def test_a_picture_of_many_pixels_is_refused(tmp_path: Path):
    """A file of a few kilobytes that unpacks to 2.7 GB."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)

    def part(name: bytes, content: bytes) -> bytes:
        size, checksum = struct.pack(">I", len(content)), zlib.crc32(name + content)
        return size + name + content + struct.pack(">I", checksum)

    rows = zlib.compress(bytes(90_001) * 100)
    content = part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    with pytest.raises(InputError, match=r"a\.png: is damaged or too large"):
        read_figures(tmp_path, "p")


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_figure_linked_from_elsewhere_is_refused(make_run: MakeRun, tmp_path: Path, suffix: str):
    directory = make_run("run", "a")
    for file in (directory / "a.svg", directory / "a.png"):
        if file.suffix == suffix:
            file.rename(tmp_path / "secret")
            file.symlink_to(tmp_path / "secret")
        else:
            file.unlink()
    with pytest.raises(InputError, match="leads out of its run"):
        read_figures(directory, "p")


def test_markdown_tables_are_rendered(tmp_path: Path):
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
    assert small.numeric == [False, True]
    assert len(longest.rows) == 200


@pytest.mark.parametrize("content", [b"", b"a,b\n1\n", b"a\n\xff\n"])
def test_damaged_csv_is_refused_in_one_sentence(tmp_path: Path, content: bytes):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.csv: is (damaged|no text)"):
        read_csv_tables(tmp_path)


def test_markdown_must_be_text(tmp_path: Path):
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"a\.md: is no text"):
        read_markdown(tmp_path)


@pytest.mark.parametrize(("name", "read"), [("a.md", read_markdown), ("a.csv", read_csv_tables)])
def test_a_table_linked_from_elsewhere_is_refused(tmp_path: Path, name: str, read):
    (tmp_path / "secret").write_text("token\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of its run"):
        read(tmp_path / "run")
