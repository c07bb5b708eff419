"""Figures as people read them."""

import math


def plain(figure: float) -> str:
    """Three digits or so: `0.94`, `15.3`, `208`, `26 000`; `failed` where there is no figure."""
    if math.isnan(figure):
        return "failed"
    if figure >= 100 or figure == int(figure):
        return f"{figure:,.0f}".replace(",", " ")
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"
