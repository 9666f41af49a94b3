from __future__ import annotations

import io

from matplotlib.text import Text

from feduplink.reporting.style import StyledFigure


def rendered(drawing: StyledFigure) -> StyledFigure:
    """The figure after it was drawn once: warnings come then, and places are final."""
    drawing.savefig(io.BytesIO(), format="png")
    return drawing


def written(drawing: StyledFigure) -> list[str]:
    """All that is written in a figure."""
    return [text.get_text() for text in drawing.findobj(Text) if text.get_text()]
