"""Human-readable figures."""

import math


def plain(figure: float) -> str:
    """Format a figure with about three digits: `0.94`, `15.3`, `208`, `26 000`; `failed` if it is missing."""
    if math.isnan(figure):
        return "failed"
    if figure >= 100 or figure == int(figure):
        return f"{figure:,.0f}".replace(",", " ")
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"
