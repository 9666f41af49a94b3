"""Pages in a real browser, that complain of nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Widths of windows, pixels.
PHONE, DESKTOP = 375, 1280


def launched_browser() -> Iterator[Browser]:
    """The system's Chromium, or else Playwright's own; the test is skipped if there is neither."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        in_path = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        executable = next(filter(None, in_path), engine.chromium.executable_path)
        if not Path(executable).exists():
            pytest.skip("no Chromium: playwright install chromium")
        # Chromium's sandbox does not work for root, and in a container everybody is root.
        browser = engine.chromium.launch(
            executable_path=executable, chromium_sandbox=os.geteuid() != 0
        )
        yield browser
        browser.close()


def serious_findings(page: Page) -> list[str]:
    """Serious and critical findings of axe-core on the page, with one element each.

    The file ``axe.min.js`` is that of the environment variable ``AXE_CORE``; without it the test is
    skipped. The page has to be opened with ``bypass_csp=True``.
    """
    if "AXE_CORE" not in os.environ:
        pytest.skip("no axe-core: npm pack axe-core, AXE_CORE=package/axe.min.js")
    page.evaluate(Path(os.environ["AXE_CORE"]).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [
        f"{finding['id']}: {finding['nodes'][0]['html']}"
        for finding in found
        if finding["impact"] in ("serious", "critical")
    ]


@contextlib.contextmanager
def opened_page(
    browser: Browser, address: str, width: int, *, expected: tuple[str, ...] = (), **options: Any
) -> Iterator[tuple[Page, list[str]]]:
    """The page at an address, and the addresses that it asks for, its own the first of them.

    What it complains of fails the test, unless a part of the complaint is ``expected``.
    ``options`` are those of Playwright's ``new_page``.
    """
    page = browser.new_page(viewport={"width": width, "height": 800}, **options)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page, asked
    page.close()
    assert [text for text in complaints if not any(part in text for part in expected)] == []
