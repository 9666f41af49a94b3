"""Every relative link of the documentation leads somewhere."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest

from feduplink.cli.commands import parse

from .markdown import ROOT

LINKING = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that only the site has: ``docs/site_hooks.py`` writes them.
GENERATED = re.compile(r"docs/reference/(?:feduplink[\w.]*|api|command-line)\.md")

_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Targets of the links and pictures that stay within the repository."""
    targets = _LINK.findall(_INLINE.sub("", prose(page)))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path):
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if GENERATED.fullmatch(file.relative_to(ROOT).as_posix()):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


# The pages can be followed in one directory: no page writes into a directory of another one.


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]

_SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The words after ``feduplink`` of every command in the shell's blocks."""
    blocks = _SHELL.findall(page.read_text(encoding="utf-8"))
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [word[1:] for word in words if word[:1] == ["feduplink"] and "--help" not in word]


def written(page: Path) -> dict[Path, set[str]]:
    """Directories that a page's commands write to, by ``--out`` or by default, and which do."""
    found = defaultdict(set)
    for words in commands(page):
        call = parse(words)
        if call.command.writes:
            found[call.out].add(call.command.name)
    return found


def test_every_command_of_every_page_is_understood():
    assert sum(len(commands(page)) for page in PAGES) > 30
    for page in PAGES:
        for words in commands(page):
            assert parse(words).command.name == words[0]


def test_no_directory_is_used_on_two_pages_or_by_two_commands():
    first: dict[Path, str] = {}
    for page in PAGES:
        for directory, names in written(page).items():
            assert len(names) == 1, f"{page.name}: {directory} by {names}"
            assert directory not in first, f"{directory}: {first[directory]} and {page.name}"
        first |= dict.fromkeys(written(page), page.name)


def test_no_directory_of_a_page_lies_in_that_of_another_one():
    """But below runs, where all of them are."""
    used = {directory: page for page in PAGES for directory in written(page)}
    for directory, page in used.items():
        for parent in directory.parents:
            assert used.get(parent, page) == page, f"{directory} in {parent}"
