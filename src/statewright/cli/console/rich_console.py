"""A Rich console that strips control characters. A module of its own, because Rich is slow to import."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from statewright.text import printable


class PrintableConsole(Console):
    """Strips from text what `printable` strips; styles and control segments of Rich stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text) if self.is_terminal else segment.text, segment.style)
