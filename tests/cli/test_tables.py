from __future__ import annotations

import io

import pytest
from rich.console import Console

from feduplink.cli.tables import terminal_table
from feduplink.tables import TextTable

LONG = "runs/somewhere/a-policy-with-a-long-name"
REMARK = "constraints: largest shortfall with the error of so many channels, together 95 %"


def printed(table: TextTable, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    console.print(terminal_table(table))
    return file.getvalue().rstrip().splitlines()


def table_of(*names: str) -> TextTable:
    columns = ["policy", "objec-\ntive", "weigh-\nted PER", "rate\n>= 0.7", "constraints"]
    cells = ["0.9714", "2.86 %", "0.733", "inconclusive +1.4±14.3"]
    return TextTable("8 workers", columns, [[name, *cells] for name in names], [REMARK])


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(width: int):
    lines = printed(table_of("pdx", LONG), width)
    assert max(map(len, lines)) <= width
    for cell in ("pdx", "0.9714", "2.86 %", "0.733", "inconclusive +1.4±14.3"):
        assert any(cell in line for line in lines)
    assert LONG in "".join(line.strip() for line in lines)
    assert " ".join(" ".join(lines).split()).endswith(REMARK)


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


def test_words_are_divided_only_where_there_is_no_room_for_them():
    wide, less, narrow = (" ".join(printed(table_of("pdx"), n)[1:3]) for n in (78, 70, 58))
    assert "rate >= 0.7" in wide
    assert "objective" in less
    assert "rate >= 0.7" not in less
    assert "objec-" in narrow


def test_a_narrow_terminal_has_numbers_for_long_names():
    lines = printed(table_of("pdx", LONG), 60)
    assert any(line.startswith("[1]  ") for line in lines)
    assert f"[1] {LONG}" in lines


def test_columns_that_do_not_fit_come_below():
    lines = printed(table_of("pdx"), 30)
    assert [line.split()[0] for line in lines if line.startswith("pdx")] == ["pdx", "pdx"]


def test_names_are_no_markup():
    assert any("[red]" in line for line in printed(table_of("[red]"), 80))
