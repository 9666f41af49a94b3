"""What tests read from figures."""

from __future__ import annotations

import io

from matplotlib.text import Text
from PIL import Image

from feduplink.reporting.style import StyledFigure


def rendered(drawing: StyledFigure) -> StyledFigure:
    """The figure, rendered once so that positions are final."""
    drawing.savefig(io.BytesIO(), format="png")
    return drawing


def written(drawing: StyledFigure) -> list[str]:
    """All texts of a figure."""
    return [text.get_text() for text in drawing.findobj(Text) if text.get_text()]


def is_picture(drawing: StyledFigure) -> bool:
    """Whether a notebook displays the figure as a picture of more than paper and ink."""
    with Image.open(io.BytesIO(drawing._repr_png_())) as image:
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
    return image.format == "PNG" and image.width > 500 and colours is not None and len(colours) > 20
