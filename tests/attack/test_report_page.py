"""Hostile files of runs in a report, rendered by a browser, neither run code nor fetch anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from chromium import DESKTOP, opened_page
from feduplink.reporting.page import read_sections, write_page
from feduplink.reporting.style import figure, save_figure
from feduplink.storage.run_directory import find_runs, write_metrics

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CALL = "document.title='taken'"
ELSEWHERE = "http://elsewhere.invalid"
XHTML = "http://www.w3.org/1999/xhtml"
MARKUP = (
    f"<script>{CALL}</script>",
    f'<img src=x onerror="{CALL}">',
    f'<svg/onload="{CALL}">',
    f'"><script>{CALL}</script>',
    f"<iframe src='{ELSEWHERE}'></iframe>",
    f"![x]({ELSEWHERE}/a.png)",
    f"[x](javascript:{CALL})",
    f'<link rel=stylesheet href="{ELSEWHERE}/a.css">',
    f'<meta http-equiv=refresh content="0; url={ELSEWHERE}">',
    "{{ 7 * 7 }}{% for x in y %}",
)
DRAWN = (
    f"<script>{CALL}</script>",
    f'<g ONLOAD="{CALL}"/>',
    f'<image HREF="{ELSEWHERE}/a.png"/>',
    f'<path style="fill: URL({ELSEWHERE}/a.svg#b)"/>',
    f'<foreignObject><iframe xmlns="{XHTML}" src="{ELSEWHERE}"/></foreignObject>',
    f'<use xlink:href="{ELSEWHERE}/a.svg#b"/>',
    f'<animate onbegin="{CALL}"/>',
    f"<style>@import url({ELSEWHERE}/a.css);</style>",
    f'<a xlink:href="javascript:{CALL}"><path d="M0 0"/></a>',
)


def attacked_run(directory: Path) -> None:
    everything = " ".join(MARKUP)
    claim = {"claim": everything, "measured": everything, "verdict": "holds"}
    names = {"title": everything, "caption": everything, "claims": [claim]}
    write_metrics(
        directory,
        {
            **names,
            "seed": 1,
            "data": everything,
            "substitution": everything,
            "scenario": {everything: everything},
            "settings": {everything: [everything]},
        },
    )
    (directory / "a.md").write_text("\n\n".join(MARKUP) + f"\n\n| {everything} |\n| --- |\n| x |\n")
    (directory / "a.csv").write_text("\n".join('"' + m.replace('"', '""') + '"' for m in MARKUP))
    with figure(3, 2, everything) as drawing:
        drawing.subplots().plot([0, 1])
    for number, intruder in enumerate(DRAWN):
        save_figure(directory / f"a{number}.png", drawing)
        file = directory / f"a{number}.svg"
        file.write_text(file.read_text().replace("</svg>", f"{intruder}</svg>"))


def test_hostile_content_neither_runs_nor_fetches(tmp_path: Path, browser: Browser):
    attacked_run(tmp_path / "run")
    page = write_page(tmp_path, read_sections(find_runs([tmp_path / "run"])))
    text = page.read_text()
    assert text.count('<img src="data:image/svg+xml;base64,') == len(DRAWN)
    assert "<svg" not in text
    assert "49" not in re.findall(r"<h2>.*?</h2>", text)[0]
    with opened_page(browser, page.as_uri(), DESKTOP) as (opened, asked):
        opened.wait_for_timeout(300)
        for element in ("iframe", "foreignObject", "link", "form", "object", "embed"):
            assert opened.locator(f"body {element}").count() == 0, element
        handlers = "[...document.querySelectorAll('*')].some(e => "
        handlers += "[...e.attributes].some(a => /^on/i.test(a.name)))"
        assert opened.evaluate(handlers) is False
        assert "taken" not in opened.title()
        links = opened.evaluate("[...document.links].map(a => a.protocol)")
        assert "javascript:" not in links
        assert asked == [page.as_uri()]


def test_hostile_content_is_harmless_without_the_csp(tmp_path: Path, browser: Browser):
    attacked_run(tmp_path / "run")
    page = write_page(tmp_path, read_sections(find_runs([tmp_path / "run"])))
    without = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", page.read_text())
    page.write_text(without)
    with opened_page(browser, page.as_uri(), DESKTOP) as (opened, asked):
        opened.wait_for_timeout(300)
        assert "taken" not in opened.title()
        assert asked == [page.as_uri()]
