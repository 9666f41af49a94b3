from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from conftest import MakeRun
from feduplink import Scenario
from feduplink.reporting.page import read_sections, render_page, write_page
from feduplink.storage.run_directory import command, find_runs

CLAIMS = [
    {"claim": "pdg < max", "measured": "0.71 & 0.94", "verdict": "does not hold"},
    {"claim": "the gap is zero", "measured": "0.001", "verdict": "holds"},
    {"claim": "in every cell", "measured": "in five", "verdict": "holds in part"},
]


def _page(*directories: Path) -> str:
    return render_page(read_sections(find_runs(directories)))


def test_a_run_is_a_section_with_all_there_is(make_run: MakeRun):
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


def test_claims_are_gathered_at_the_top(make_run: MakeRun, tmp_path: Path):
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
    """What a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data") or (name == "href" and tag != "a"):
                self.loaded.append(value)


def test_nothing_comes_from_outside(make_run: MakeRun):
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


def test_the_same_runs_give_the_same_page(make_run: MakeRun, tmp_path: Path):
    directory = make_run("run", "a")
    sections = read_sections(find_runs([directory]))
    path = write_page(tmp_path / "out", sections)
    assert path == tmp_path / "out/report.html"
    assert path.read_text(encoding="utf-8") == _page(directory)


def test_a_run_from_before_provenance(tmp_path: Path):
    (tmp_path / "metrics.json").write_text('{"scenario": {"workers": 8}}')
    page = _page(tmp_path)
    assert "<summary>Settings</summary>" in page
    assert "took" not in page
