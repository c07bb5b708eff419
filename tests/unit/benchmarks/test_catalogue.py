"""The catalogue of figures."""

from __future__ import annotations

from collections import Counter

from benchmarks.catalogue import FIGURES, choose


def test_every_figure_has_a_row_of_its_own_in_the_table() -> None:
    assert max(Counter((figure.name, figure.unit) for figure in FIGURES).values()) == 1
    assert [figure.name for figure in FIGURES if not figure.rivals and figure.limit is None] == []


def test_a_quick_run_leaves_the_long_figures_out() -> None:
    quick = choose([], with_long=False)
    assert quick
    assert len(quick) < len(FIGURES)
    assert choose([], with_long=True) == list(FIGURES)
    assert {figure.name for figure in choose(["claims"], with_long=True)}.isdisjoint(figure.name for figure in quick)
