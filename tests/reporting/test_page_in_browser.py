"""The layout of the page in a browser."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chromium import DESKTOP, PHONE, opened_page, serious_findings
from experiments.tiny import TINY
from feduplink.cli.command_line import main
from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.reproduction import run_experiments
from feduplink.storage.run_directory import write_metrics

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Of ``reproduce``: title, and how many claims.
REPRODUCED = {
    "The paper's figures": 0,
    "Allocated powers": 2,
    "Arrivals": 4,
    "Data that differ between workers (not mnist)": 0,
}
TITLES = [
    "Policies compared",
    "Federated learning of digits",
    "Training of pdg",
    "Figure 1",
    *REPRODUCED,
]
#: Runs whose findings are at the top.
WITH_FINDINGS = ["Policies compared", "Federated learning of digits"]
CLAIM = {
    "claim": "A claim that is long enough to need more than a line on any telephone",
    "measured": "so-and-so-much, which also takes its time to say",
    "verdict": "holds in part",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run of every kind."""
    runs = tmp_path_factory.mktemp("browser") / "runs"
    tiny = "--workers 3 --channels-per-split 40"
    for line in (
        f"evaluate {tiny} --policies max,rand --out {runs}/a",
        f"federate --workers 3 --rounds 2 --policies ideal,max --out {runs}/b",
        f"train {tiny} --policy pdg --epochs 2 --out {runs}/c",
    ):
        assert main(line.split()) == 0
    write_metrics(runs / "d", {"title": "Figure 1", "claims": [CLAIM]})
    shutil.copy(runs / "a/comparison.svg", runs / "d/old.svg")
    figures = [EXPERIMENTS[name] for name in ("noniid-data", "arrivals", "power-histogram")]
    context = ExperimentContext(runs / "e/kept", TINY, data=runs / "none")
    run_experiments(figures, context, runs / "e")
    assert main(["report", str(runs), "--out", f"{runs}/report"]) == 0
    return runs / "report/report.html"


@contextlib.contextmanager
def _opened(browser: Browser, report: Path, width: int, scheme: str = "light") -> Iterator[Page]:
    """The page at this width, which loads no other resource."""
    address = report.as_uri()
    with opened_page(browser, address, width, color_scheme=scheme) as (page, asked):
        yield page
    assert [url for url in asked if not url.startswith("data:")] == [address]


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_all_sections_fit_the_width(browser, report: Path, width: int):
    with _opened(browser, report, width) as page:
        assert page.locator("h1").inner_text() == "feduplink report"
        assert page.locator("main h2").all_inner_texts() == [
            "Findings",
            "Claims",
            "Contents",
            *TITLES,
        ]
        figures = page.locator("figure img").all()
        assert len(figures) == 2 + 2 + 2 + 1 + 3
        for figure in figures:
            box = figure.bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 100
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_scrolls_is_reached_by_the_keyboard(browser, report: Path):
    with _opened(browser, report, PHONE) as page:
        for details in page.locator("details").all():
            details.locator("summary").click()
        unreachable = page.evaluate(
            """() => [...document.querySelectorAll("body *")]
              .filter((box) => box.scrollWidth > box.clientWidth + 1 && box.clientWidth > 0)
              .filter((box) => getComputedStyle(box).overflowX === "auto")
              .filter((box) => box.tabIndex !== 0 || !box.ariaLabel || box.role !== "region")
              .map((box) => box.outerHTML.slice(0, 80))"""
        )
        assert unreachable == []


def test_policy_and_verdict_stay_in_sight_on_a_phone(browser, report: Path):
    with _opened(browser, report, PHONE) as page:
        table = page.locator("table.verdict-last").first
        table.evaluate("table => { table.parentElement.scrollLeft = 60; }")
        row = table.locator("tbody tr").first.locator("td")
        for cell in (row.first, row.last):
            box = cell.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(browser, report: Path, width: int, scheme: str):
    address = report.as_uri()
    with opened_page(browser, address, width, color_scheme=scheme, bypass_csp=True) as (page, _):
        for details in page.locator("details").all():
            details.locator("summary").click()
        assert serious_findings(page) == []


def test_links_lead_to_sections(browser, report: Path):
    with _opened(browser, report, DESKTOP) as page:
        targets = page.locator('a[href^="#"]').evaluate_all(
            "links => links.map(a => document.querySelector(a.hash)?.querySelector('h2').innerText)"
        )
        claims = [title for title, count in REPRODUCED.items() for _ in range(count)]
        assert targets == [*WITH_FINDINGS, "Figure 1", *claims, *TITLES]


@pytest.mark.parametrize(
    ("scheme", "medium", "dark"),
    [("light", "screen", False), ("dark", "screen", True), ("dark", "print", False)],
)
def test_the_page_has_the_colours_of_the_system_on_the_screen(
    browser, report, scheme, medium, dark
):
    with _opened(browser, report, DESKTOP, scheme) as page:
        page.emulate_media(media=medium, color_scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        channels = paper.removeprefix("rgb(").removesuffix(")").split(",")
        assert (sum(map(int, channels)) / 3 < 60) == dark
