"""The documentation as a site: complete, without warnings, and without anything from elsewhere."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from .markdown import ROOT

pytest.importorskip("griffe", reason="what builds the site is not installed")

from command_line import command_line_page
from docstring_markup import as_markdown
from feduplink.cli.commands import COMMANDS
from site_hooks import (
    GROUPS,
    MODULES,
    PUBLIC,
    on_page_content,
    on_page_markdown,
    public_names,
    reference_pages,
)

#: Elements that make a browser load something, and the attribute that says what.
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
}
#: Links that load, unlike those to other pages.
_RELATIONS = {"stylesheet", "icon", "preload", "preconnect", "modulepreload", "prefetch"}
#: Packages that are not imported without an extra, and what it installs.
_EXTRAS = {"feduplink.flower": "flwr", "feduplink.serving.playground": "fastapi"}
#: Programs in a page, those within lists too.
_PYTHON = re.compile(r"^ *```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


class Resources(HTMLParser):
    """What a page loads, and the ids in it."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])
        if tag == "link" and _RELATIONS & set(given.get("rel", "").split()):
            self.loaded.append(given.get("href", ""))


def read(page: Path) -> Resources:
    parser = Resources()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with warnings as errors: broken links, missing headings, pages that no menu has."""
    directory = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return directory


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        outside = [url for url in read(page).loaded if re.match(r"(?:https?:)?//", url)]
        assert not outside, page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path):
    for module in PUBLIC:
        ids = read(site / "reference" / f"{module}.html").ids
        for name in set(public_names(module)) - {"__version__"}:
            if f"{module}.{name}" in PUBLIC:  # a sub-package has a page of its own
                continue
            # What is defined elsewhere has the id of that place.
            found = getattr(importlib.import_module(module), name)
            home = f"{getattr(found, '__module__', module)}.{getattr(found, '__qualname__', name)}"
            assert {f"{module}.{name}", home} & ids, f"{module}.{name}"


def test_the_reference_has_every_package_with_names_to_import():
    packages = {
        ".".join(path.parent.relative_to(ROOT / "src").parts)
        for path in (ROOT / "src/feduplink").rglob("__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }
    assert packages == PUBLIC.keys()
    for module in (*PUBLIC, *MODULES):
        assert f"reference/{module}.md" in reference_pages()


def test_the_menu_has_every_module_once():
    listed = [module for _purpose, modules in GROUPS.values() for module in modules]
    assert sorted(listed) == sorted({**PUBLIC, **MODULES})


def test_the_command_line_page_has_every_command_and_its_options():
    page = command_line_page()
    for command in COMMANDS:
        assert f"\n## {command.name}\n" in page
    assert "`--pmax-dbw" in page
    assert page.count("`--interference") == 1


#: Pages with formulas.
_WITH_FORMULAS = [
    path for path in (ROOT / "docs").rglob("*.md") if "$" in path.read_text(encoding="utf-8")
]


def shown(markdown: str) -> str:
    """The content of a page of this Markdown, but for Markdown's own conversion."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    config = SimpleNamespace(extra={"repository": None})
    return on_page_content(on_page_markdown(markdown, page, config), page)


def test_formulas_become_mathml_and_code_stays():
    html = shown("$p_i$ and\n\n$$\\sum_i x_i$$\n\n`$x$`\n\n```sh\necho $HOME $PATH\n```\n")
    assert html.count("<math") == 2
    assert "`$x$`" in html
    assert "echo $HOME $PATH" in html


@pytest.mark.parametrize("path", _WITH_FORMULAS, ids=lambda path: path.name)
def test_every_formula_is_converted(path: Path):
    html = shown(path.read_text(encoding="utf-8"))
    formulas = re.findall(r"<math.*?</math>", html, re.DOTALL)
    assert formulas or "```" in html
    for formula in formulas:
        # What the converter does not know stays as a command.
        assert "\\" not in formula, formula


def imported(code: str) -> set[tuple[str, str]]:
    """Modules of the package that a program uses names of, and these names."""
    used = {
        ("feduplink", node.attr)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "fu"
    }
    return used | {
        (statement.module, name.name)
        for statement in ast.walk(ast.parse(code))
        if isinstance(statement, ast.ImportFrom)
        and (statement.module or "").split(".")[0] == "feduplink"
        for name in statement.names
    }


def test_the_reference_has_all_that_users_are_told_to_import():
    """By the pages, the examples and the notebooks."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    scripts = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "notebooks").glob("*.py")]
    programs = [path.read_text("utf-8") for path in scripts]
    for page in pages:
        programs += map(textwrap.dedent, _PYTHON.findall(page.read_text("utf-8")))
    told = set().union(*map(imported, programs))
    assert len(told) > 40
    missing = {
        (module, name)
        for module, name in told
        if not (
            module in MODULES
            or f"{module}.{name}" in PUBLIC
            or (module in PUBLIC and name in public_names(module))
        )
    }
    assert missing == set()


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_those_that_python_finds(module: str):
    if module in _EXTRAS:
        pytest.importorskip(_EXTRAS[module])
    assert set(public_names(module)) == set(importlib.import_module(module).__all__)


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [
        ("See :func:`judge`.", "See `judge`."),
        ("``(N, L)``, W", "`(N, L)`, W"),
        ("Text.\n\n>>> 1 + 1\n2\n\nMore.", "Text.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."),
    ],
)
def test_docstrings_as_markdown(docstring: str, shown: str):
    assert as_markdown(docstring) == shown


@pytest.mark.parametrize(
    ("written", "without_address", "with_address"),
    [
        ("[it](pdx.md#how)", "[it](pdx.md#how)", "[it](pdx.md#how)"),
        (
            "[why](../SECURITY.md#who)",
            "why (`SECURITY.md`)",
            "[why](https://a.b/blob/main/SECURITY.md#who)",
        ),
        (
            "[examples/a.py](../examples/a.py)",
            "examples/a.py",
            "[examples/a.py](https://a.b/blob/main/examples/a.py)",
        ),
        ("```sh\n[no](../link)\n```", "```sh\n[no](../link)\n```", "```sh\n[no](../link)\n```"),
    ],
)
def test_links_that_leave_the_documentation(written, without_address, with_address):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="tutorial.md"))
    for address, shown in ((None, without_address), ("https://a.b", with_address)):
        config = SimpleNamespace(extra={"repository": address})
        assert on_page_markdown(written, page, config) == shown
