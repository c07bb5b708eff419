"""Rich's console, but for text that commands terminals."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from statewright.terminal_text import printable


class PrintableConsole(Console):
    """Leaves out of texts what `printable` does; styles and control segments are Rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Generate the segments of something to be shown."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text) if self.is_terminal else segment.text, segment.style)
