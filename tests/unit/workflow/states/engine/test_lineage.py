"""Contexts and histories of branches, computed from visits."""

from typing import Any

import pytest

from statewright.errors import RoutingError
from statewright.workflow.states.engine.lineage import Lineage, Lineages, make_lineage
from statewright.workflow.states.engine.visit import ANSWER, Effects, ItemRef, Visit


def lineage_of(*visits: Visit, run_input: Any = "hi") -> Lineage:
    result = Lineage(run_input)
    result.extend(visits)
    return result


FORK = (
    Visit("r", "r", '{"k": 0}'),
    Visit("b", "b", '{"k": "b"}', ("r",), "0/2"),
    Visit("c", "c", '{"k": "c", "n": 1}', ("r",), "1/2"),
)


def texts(view: Any) -> list[str]:
    return [message.text for message in view.history]


def test_before_the_first_visit_a_branch_sees_only_the_input() -> None:
    view = lineage_of(run_input={"u": 1}).get_view(())
    assert (view.context, texts(view)) == ({"u": 1}, ['{"u": 1}'])
    assert texts(lineage_of(run_input=None).get_view(())) == []


def test_2_6_a_branch_does_not_see_its_siblings() -> None:
    lineage = lineage_of(*FORK)
    assert lineage.get_view(("b",)).context == {"k": "b"}
    assert texts(lineage.get_view(("c",))) == ["hi", '{"k": 0}', '{"k": "c", "n": 1}']


def test_2_5_joined_branches_are_merged_in_the_given_order() -> None:
    lineage = lineage_of(*FORK)
    assert lineage.get_view(("b", "c")).context == {"k": "c", "n": 1}
    assert lineage.get_view(("c", "b")).context == {"k": "b", "n": 1}
    assert len(texts(lineage.get_view(("b", "c")))) == 4


def test_the_merged_view_joins_all_final_visits_in_branch_order() -> None:
    lineage = lineage_of(FORK[0], FORK[2], FORK[1])
    assert lineage.get_merged_view().context == {"k": "c", "n": 1}


def test_items_are_found_by_reference() -> None:
    lineage = lineage_of(Visit("l", "l", '{"xs": ["a", {"n": 1}]}'), Visit("p", "p", "raw", ("l",)))
    assert lineage.get_item(ItemRef("l", "xs", 1)) == {"n": 1}
    assert lineage.get_item(ItemRef("p")) == "raw"
    assert lineage.get_item(None) is None
    with pytest.raises(RoutingError):
        lineage["l"].split_result("ys")


def test_2_6_the_final_visits_of_an_iteration_are_in_item_order() -> None:
    ends = [Visit(f"e{n}", "p", "x", path=f"{n}/12", targets=("m",), iteration="l") for n in (11, 2, 9)]
    unfinished = Visit("q", "p", "x", path="3/12", iteration="l")
    lineage = lineage_of(*ends, unfinished, Visit("o", "p", "x", targets=("m",), iteration="other"))
    assert [visit.id for visit in lineage.list_final_visits("l")] == ["e2", "e9", "e11"]


def test_2_11_pending_answers_are_those_since_the_last_visit() -> None:
    first, second = Visit("a1", ANSWER, "one"), Visit("a2", ANSWER, "two")
    assert lineage_of(FORK[0], first, second).list_pending_answers() == ("a1", "a2")
    assert lineage_of(first, FORK[0]).list_pending_answers() == ()


def test_2_11_an_answer_is_a_message_of_the_user() -> None:
    (_, message) = lineage_of(Visit("a1", ANSWER, '{"k": 1}')).get_view(("a1",)).history
    assert (message.role, message.name) == ("user", None)


def test_2_9_a_summary_replaces_all_but_the_first_message() -> None:
    lineage = lineage_of(FORK[0], Visit("e", "e", "last", ("r",), summary="so far"))
    assert texts(lineage.get_view(("e",))) == ["hi", "so far", "last"]


def test_2_2_history_flags_change_the_messages() -> None:
    lineage = lineage_of(
        FORK[0], Visit("e", "e", "x", ("r",), effects=Effects(removes_messages=True, is_user_message=True))
    )
    (message,) = lineage.get_view(("e",)).history
    assert (message.role, message.text) == ("user", "x")
    assert texts(lineage_of(Visit("e", "e", "x", effects=Effects(adds_message=False))).get_view(("e",))) == ["hi"]


def test_a_long_chain_of_visits_does_not_recurse_deeply() -> None:
    visits = [Visit(str(n), "s", f'{{"n": {n}}}', (str(n - 1),) if n else ()) for n in range(5000)]
    assert lineage_of(*visits).get_view(("4999",)).context == {"n": 4999}


def test_call_counts_include_repeated_calls_of_models() -> None:
    assert lineage_of(Visit("1", "s", "x", calls=3), Visit("2", "s", "x")).count_calls("s") == 4
    assert lineage_of().count_calls("s") == 0


def entry(name: str, output: str) -> Visit:
    return Visit(name, "s", output, is_entry=True)


def test_only_the_last_run_on_a_thread_counts() -> None:
    values = {"input": "again", "visits": [entry("1", '{"a": 1}'), Visit("2", ANSWER, "yes"), entry("3", '{"b": 1}')]}
    lineage = make_lineage(values)
    assert [visit.id for visit in lineage] == ["2", "3"]
    assert "a" not in lineage.get_merged_view().context


def test_a_continued_run_extends_its_lineage_and_another_run_replaces_it() -> None:
    lineages, visits = Lineages(), [entry("1", "x")]
    first = lineages.get("run", {"input": "hi", "visits": visits})
    more = [*visits, Visit("2", "e", "y", ("1",))]
    assert lineages.get("run", {"input": "hi", "visits": more}) is first
    assert len(list(first)) == 2
    other = lineages.get("run", {"input": "hi", "visits": [entry("1", "z")]})
    assert other is not first
    assert [visit.output for visit in other] == ["z"]
