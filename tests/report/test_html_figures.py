from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest

from conftest import MakeRun
from feduplink import InputError
from feduplink.reporting.page import read_figures


def test_a_drawing_takes_the_colours_of_the_page(make_run: MakeRun):
    (figure,) = read_figures(make_run("run", "line"), "p")
    assert (figure.name, figure.caption, figure.width) == ("line", "What line shows", 4 * 96)
    assert figure.html.startswith("<svg")
    assert 'role="img" aria-label="What line shows"' in figure.html
    for role in ("ink", "paper", "grid"):
        assert f"var(--{role})" in figure.html
    colours = set(re.findall(r"#[0-9a-f]{6}\b", figure.html))
    assert colours == {"#0072b2"}


def test_ids_differ_between_figures_and_all_references_hold(make_run: MakeRun):
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


def test_a_picture_without_a_drawing_is_put_into_the_page(make_run: MakeRun):
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
def test_a_drawing_with_anything_else_stays_out(make_run: MakeRun, intruder: str):
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


def test_a_directory_without_figures(tmp_path: Path):
    assert read_figures(tmp_path, "p") == []


def test_entities_stay_out(make_run: MakeRun):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    bomb = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    file.write_text(re.sub(r"<!DOCTYPE[^>]*>", bomb, file.read_text()))
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith("<img")


@pytest.mark.parametrize("attribute", ["width", "height"])
def test_a_drawing_without_a_size_is_none_of_ours(make_run: MakeRun, attribute: str):
    directory = make_run("run", "a")
    file = directory / "a.svg"
    file.write_text(re.sub(rf' {attribute}="[^"]*pt"', "", file.read_text(), count=1))
    (figure,) = read_figures(directory, "p")
    assert figure.html.startswith("<img")


def test_a_picture_of_many_pixels_is_refused(tmp_path: Path):
    """A few kilobytes that unpack to 2.7 GB."""
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
def test_a_link_out_of_the_run_is_refused(make_run: MakeRun, tmp_path: Path, suffix: str):
    directory = make_run("run", "a")
    for file in (directory / "a.svg", directory / "a.png"):
        if file.suffix == suffix:
            file.rename(tmp_path / "secret")
            file.symlink_to(tmp_path / "secret")
        else:
            file.unlink()
    with pytest.raises(InputError, match="leads out of its run"):
        read_figures(directory, "p")
