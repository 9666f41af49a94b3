from __future__ import annotations

import dataclasses
import html.parser
import io

import pytest
from rich.console import Console

from feduplink.tables import TextTable, terminal_table

LONG = "runs/somewhere/a-policy-with-a-long-name"
REMARK = "constraints: margin of the worst worker with its simultaneous 95 % confidence interval"


def printed(table: TextTable, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    console.print(terminal_table(table))
    return file.getvalue().rstrip().splitlines()


def table_of(*names: str) -> TextTable:
    columns = ["policy", "objective", "weighted\nPER", "rate\n>= 0.7", "constraints"]
    cells = ["0.9714", "2.86 %", "0.733", "open +1.4±14.3"]
    return TextTable("8 workers", columns, [[name, *cells] for name in names], [REMARK])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_the_terminal_and_shows_every_cell(width: int):
    lines = printed(table_of("pdx", LONG), width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for cell in ("pdx", "0.9714", "2.86 %", "0.733"):
        assert cell in text
    assert text.endswith(REMARK)


def test_a_wide_terminal_has_headers_on_one_line():
    lines = printed(table_of("pdx", LONG), 120)
    assert lines[1].split() == [
        "policy",
        "objective",
        "weighted",
        "PER",
        "rate",
        ">=",
        "0.7",
        "constraints",
    ]
    assert any(line.startswith(LONG) for line in lines)


def test_a_narrow_terminal_breaks_headers_and_no_cell():
    columns = ["policy", "objective", "rate\n>= 0.25", "margin", "verdict"]
    cells = ["openloop", "0.9714", "0.251", "+1.4 ± 1.5 %", "inconclusive"]
    table = TextTable("8 workers", columns, [cells])
    for width in (60, 54, 50):
        lines = printed(table, width)
        assert max(map(len, lines)) <= width
        assert lines[-1].split() == " ".join(cells).split()


def test_names_are_not_markup():
    assert any("[red]" in line for line in printed(table_of("[red]"), 80))


TABLE = TextTable(
    "Two <things>",
    ("name", "partial", "final\nerror"),
    [("a & b", "1", "0.25"), ("longer name", "12", "-")],
    ["error < 1"],
)


def test_plain_text_is_aligned():
    assert TABLE.plain().splitlines() == [
        "Two <things>",
        "name         partial  final error",
        "a & b              1         0.25",
        "longer name       12            -",
        "error < 1",
    ]


def test_markdown_has_remarks_in_one_paragraph_and_one_for_each_note():
    noted = dataclasses.replace(TABLE, remarks=["error < 1", "b"], notes=["max: x", "y"])
    assert noted.markdown().splitlines() == [
        "Two <things>",
        "",
        "| name | partial | final error |",
        "| --- | ---: | ---: |",
        "| a & b | 1 | 0.25 |",
        "| longer name | 12 | - |",
        "",
        "Error < 1.",
        "B.",
        "",
        "max: x.",
        "",
        "y.",
    ]


def test_html_escapes_the_texts_of_a_table():
    class Reader(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: set[str] = set()
            self.texts: list[str] = []

        def handle_starttag(self, tag, attrs):
            self.tags.add(tag)

        def handle_data(self, data):
            self.texts.append(data)

    reader = Reader()
    reader.feed(TABLE.html())
    assert reader.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "small"}
    assert reader.texts[:5] == ["Two <things>", "name", "partial", "final error", "a & b"]
    assert reader.texts[-1] == "error < 1"


def test_a_table_of_entries_has_no_header():
    table = TextTable.of_entries("Result", {"objective": "0.97", "gap": "0.1"})
    assert table.plain() == "Result\nobjective  0.97\ngap         0.1"
    assert "<thead>" not in table.html()
