from __future__ import annotations

import html.parser

from feduplink.tables import TextTable

TABLE = TextTable(
    "Two <things>",
    ("name", "par-\ntial", "final\nerror"),
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


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "Two <things>",
        "",
        "| name | partial | final error |",
        "| --- | ---: | ---: |",
        "| a & b | 1 | 0.25 |",
        "| longer name | 12 | - |",
    ]


def test_html_holds_the_texts_and_no_markup_of_theirs():
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


def test_entries_have_no_header():
    table = TextTable.of_entries("Result", {"objective": "0.97", "gap": "0.1"})
    assert table.plain() == "Result\nobjective  0.97\ngap         0.1"
    assert "<thead>" not in table.html()
