"""What a branch sees: contexts and histories made from visits."""

from typing import Any

import pytest

from statewright.errors import RoutingError
from statewright.workflow.states.engine.lineage import Lineage, Lineages, make_lineage
from statewright.workflow.states.engine.visit import ANSWER, Effects, ItemRef, Visit


def lineage(*visits: Visit, given: Any = "hi") -> Lineage:
    found = Lineage(given)
    found.extend(visits)
    return found


FORK = (
    Visit("r", "r", '{"k": 0}'),
    Visit("b", "b", '{"k": "b"}', ("r",), "0/2"),
    Visit("c", "c", '{"k": "c", "n": 1}', ("r",), "1/2"),
)


def texts(found: Any) -> list[str]:
    return [message.text for message in found.history]


def test_before_the_first_visit_there_is_the_input() -> None:
    view = lineage(given={"u": 1}).get_view(())
    assert (view.context, texts(view)) == ({"u": 1}, ['{"u": 1}'])
    assert texts(lineage(given=None).get_view(())) == []


def test_2_6_a_branch_sees_nothing_of_its_siblings() -> None:
    found = lineage(*FORK)
    assert found.get_view(("b",)).context == {"k": "b"}
    assert texts(found.get_view(("c",))) == ["hi", '{"k": 0}', '{"k": "c", "n": 1}']


def test_2_5_branches_that_come_together_are_merged_in_the_order_that_is_given() -> None:
    found = lineage(*FORK)
    assert found.get_view(("b", "c")).context == {"k": "c", "n": 1}
    assert found.get_view(("c", "b")).context == {"k": "b", "n": 1}
    assert len(texts(found.get_view(("b", "c")))) == 4


def test_the_whole_is_all_that_nobody_follows_in_branch_order() -> None:
    found = lineage(FORK[0], FORK[2], FORK[1])
    assert found.get_merged_view().context == {"k": "c", "n": 1}


def test_items_are_found_by_reference() -> None:
    found = lineage(Visit("l", "l", '{"xs": ["a", {"n": 1}]}'), Visit("p", "p", "raw", ("l",)))
    assert found.get_item(ItemRef("l", "xs", 1)) == {"n": 1}
    assert found.get_item(ItemRef("p")) == "raw"
    assert found.get_item(None) is None
    with pytest.raises(RoutingError):
        found["l"].split_result("ys")


def test_2_6_the_ends_of_an_iteration_are_in_item_order() -> None:
    ends = [Visit(f"e{n}", "p", "x", path=f"{n}/12", targets=("m",), iteration="l") for n in (11, 2, 9)]
    on_their_way = Visit("q", "p", "x", path="3/12", iteration="l")
    found = lineage(*ends, on_their_way, Visit("o", "p", "x", targets=("m",), iteration="other"))
    assert [visit.id for visit in found.list_final_visits("l")] == ["e2", "e9", "e11"]


def test_2_11_answers_are_those_since_the_last_visit() -> None:
    first, second = Visit("a1", ANSWER, "one"), Visit("a2", ANSWER, "two")
    assert lineage(FORK[0], first, second).list_pending_answers() == ("a1", "a2")
    assert lineage(first, FORK[0]).list_pending_answers() == ()


def test_2_11_an_answer_is_a_message_of_the_user() -> None:
    (_, said) = lineage(Visit("a1", ANSWER, '{"k": 1}')).get_view(("a1",)).history
    assert (said.role, said.name) == ("user", None)


def test_2_9_a_summary_takes_the_place_of_all_but_the_first_message() -> None:
    found = lineage(FORK[0], Visit("e", "e", "last", ("r",), summary="so far"))
    assert texts(found.get_view(("e",))) == ["hi", "so far", "last"]


def test_2_2_history_flags() -> None:
    found = lineage(FORK[0], Visit("e", "e", "x", ("r",), effects=Effects(forget=True, as_human=True)))
    (message,) = found.get_view(("e",)).history
    assert (message.role, message.text) == ("user", "x")
    assert texts(lineage(Visit("e", "e", "x", effects=Effects(remember=False))).get_view(("e",))) == ["hi"]


def test_a_long_line_of_visits_is_no_deep_recursion() -> None:
    visits = [Visit(str(n), "s", f'{{"n": {n}}}', (str(n - 1),) if n else ()) for n in range(5000)]
    assert lineage(*visits).get_view(("4999",)).context == {"n": 4999}


def test_calls_are_counted_with_the_repeats_of_models() -> None:
    assert lineage(Visit("1", "s", "x", calls=3), Visit("2", "s", "x")).count_calls("s") == 4
    assert lineage().count_calls("s") == 0


def entry(name: str, output: str) -> Visit:
    return Visit(name, "s", output, is_entry=True)


def test_of_several_runs_on_a_thread_only_the_last_counts() -> None:
    values = {"input": "again", "visits": [entry("1", '{"a": 1}'), Visit("2", ANSWER, "yes"), entry("3", '{"b": 1}')]}
    found = make_lineage(values)
    assert [visit.id for visit in found] == ["2", "3"]
    assert "a" not in found.get_merged_view().context


def test_a_run_that_goes_on_only_adds_visits_and_any_other_begins_anew() -> None:
    lineages, visits = Lineages(), [entry("1", "x")]
    first = lineages.get("run", {"input": "hi", "visits": visits})
    more = [*visits, Visit("2", "e", "y", ("1",))]
    assert lineages.get("run", {"input": "hi", "visits": more}) is first
    assert len(list(first)) == 2
    other = lineages.get("run", {"input": "hi", "visits": [entry("1", "z")]})
    assert other is not first
    assert [visit.output for visit in other] == ["z"]
