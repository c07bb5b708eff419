"""Part I section 1: state and channels, tested with whole graphs."""

import operator
import threading
import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel
from pydantic_core import core_schema

from statewright import (
    END,
    REMOVE_ALL_MESSAGES,
    START,
    AnyValue,
    Command,
    Ephemeral,
    EphemeralReducer,
    InMemorySaver,
    IsLastStep,
    Message,
    MessagesState,
    MessagesStateGraph,
    Overwrite,
    RemainingSteps,
    RemoveMessage,
    Send,
    StateGraph,
    StateSchema,
    Topic,
    Untracked,
    add_messages,
    append,
    overwrite,
)
from statewright.errors import (
    ConflictingWrites,
    InvalidGraph,
    InvalidUpdateError,
    MutatedState,
    UnknownKeyWarning,
)


class Log(TypedDict, total=False):
    log: Annotated[list[str], append]
    x: int


@dataclass
class DataState:
    log: Annotated[list[str], append] = field(default_factory=list)
    x: int = 0


class ModelState(BaseModel):
    log: Annotated[list[str], append] = []
    x: int = 0


DICT_STATE = {"log": append, "x": overwrite}


def read(state: Any, name: str) -> Any:
    return state[name] if isinstance(state, dict) else getattr(state, name)


# -- 1.1 schemas


@pytest.mark.parametrize("schema", [Log, DataState, ModelState, DICT_STATE], ids=["typed", "data", "model", "dict"])
def test_every_kind_of_schema_defines_channels(driver: Any, schema: Any) -> None:
    def a(state: Any) -> dict[str, Any]:
        return {"log": ["a"], "x": read(state, "x") + 1}

    def b(state: Any) -> dict[str, Any]:
        return {"log": [f"saw {read(state, 'x')}"]}

    app = StateGraph(schema).add_sequence([a, b]).add_edge(START, "a").compile()

    assert driver.invoke(app, {"x": 1, "log": ["start"]}) == {"x": 2, "log": ["start", "a", "saw 2"]}


@pytest.mark.parametrize(
    ("schema", "kind"), [(Log, dict), (DataState, DataState), (ModelState, ModelState), (DICT_STATE, dict)]
)
def test_a_node_gets_a_mapping_or_an_instance_of_the_schema(schema: Any, kind: type) -> None:
    seen: list[type] = []
    app = StateGraph(schema).add_node("a", lambda state: seen.append(type(state))).add_edge(START, "a").compile()

    app.invoke({"x": 1})

    assert seen == [kind]


def test_a_bare_value_updates_a_root_state(driver: Any) -> None:
    graph = StateGraph(Annotated[list, operator.add])
    graph.add_node("a", lambda value: [len(value)]).add_node("b", lambda value: [len(value)])
    app = graph.add_edge(START, "a").add_edge("a", "b").compile()

    assert driver.invoke(app, ["in"]) == ["in", 1, 2]


def test_a_root_state_without_a_reducer_has_the_last_value(driver: Any) -> None:
    app = StateGraph(int).add_node("a", lambda value: value + 1).add_edge(START, "a").compile()

    assert driver.invoke(app, 41) == 42


def test_returning_none_does_not_change_a_root_state() -> None:
    app = StateGraph(int).add_node("a", lambda value: None).add_edge(START, "a").compile()

    assert app.invoke(41) == 41


def test_dict_schemas_are_open_and_class_schemas_are_closed(driver: Any) -> None:
    def a(state: Any) -> dict[str, int]:
        return {"other": 1}

    opened = StateGraph({"x": overwrite}).add_node(a).add_edge(START, "a").compile()
    closed = StateGraph(Log).add_node(a).add_edge(START, "a").compile(unknown_keys="error")

    assert driver.invoke(opened, {"x": 0}) == {"x": 0, "other": 1}
    with pytest.raises(InvalidUpdateError, match="'other'"):
        driver.invoke(closed, {"x": 0})


def test_a_dict_schema_can_be_closed() -> None:
    schema = StateSchema({"x": overwrite}, closed=True)
    graph = StateGraph(schema).add_node("a", lambda state: {"other": 1}).add_edge(START, "a")

    with pytest.raises(InvalidUpdateError, match="'other'"):
        graph.compile(unknown_keys="error").invoke({"x": 0})


def test_two_writers_of_an_undeclared_key_conflict() -> None:
    graph = StateGraph({"x": overwrite})
    graph.add_node("a", lambda state: {"other": 1}).add_node("b", lambda state: {"other": 2})
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    with pytest.raises(ConflictingWrites, match=r"'other'.*'a' and 'b'"):
        app.invoke({"x": 0})


def test_dict_schemas_accept_lambdas_types_and_channels(driver: Any) -> None:
    graph = StateGraph({"count": lambda old, new: (old or 0) + new, "names": list, "signal": EphemeralReducer})
    graph.add_node("a", lambda state: {"count": 1, "names": ["n"], "signal": "s"})
    graph.add_node("b", lambda state: {"count": 2, "names": [state["signal"]]})
    app = graph.add_edge(START, "a").add_edge("a", "b").compile()

    assert driver.invoke(app, {"count": 1}) == {"count": 4, "names": ["s"]}


def test_the_schema_can_be_set_after_creating_the_graph() -> None:
    schema = StateSchema({})
    schema.register_reducer("log", append)
    app = StateGraph().set_schema(schema).add_node("a", lambda state: {"log": "a"}).add_edge(START, "a").compile()

    assert app.invoke({"log": ["start"]}) == {"log": ["start", "a"]}


def test_input_output_and_node_schemas_share_channels(driver: Any) -> None:
    class In(TypedDict):
        question: str

    class Out(TypedDict):
        answer: str

    class Private(TypedDict):
        draft: str

    class Whole(TypedDict, total=False):
        question: str
        answer: str

    seen: list[Any] = []

    def think(state: Whole) -> dict[str, str]:
        return {"draft": state["question"].upper()}

    def say(state: Private) -> dict[str, str]:
        seen.append(dict(state))
        return {"answer": state["draft"] + "!"}

    graph = StateGraph(Whole, input_schema=In, output_schema=Out)
    app = graph.add_node(think).add_node(say).add_edge(START, "think").add_edge("think", "say").compile()

    assert driver.invoke(app, {"question": "why"}) == {"answer": "WHY!"}
    assert seen == [{"draft": "WHY"}]


def test_input_fields_outside_the_input_schema_are_dropped_with_a_warning() -> None:
    class In(TypedDict):
        x: int

    app = StateGraph(Log, input_schema=In).add_node("a", lambda s: None).add_edge(START, "a").compile()

    with pytest.warns(UnknownKeyWarning, match="'log'"):
        assert app.invoke({"x": 1, "log": ["no"]}) == {"x": 1, "log": []}


# -- 1.2 reducers


def parallel(schema: Any, *updates: Any, **options: Any) -> Any:
    """A graph whose nodes w0, w1, ... run in one superstep and return the updates."""
    graph = StateGraph(schema)
    for number, update in enumerate(updates):
        graph.add_node(f"w{number}", lambda state, update=update: update).add_edge(START, f"w{number}")
    return graph.compile(**options)


def test_two_writers_of_a_plain_field_in_one_superstep_conflict(driver: Any, paint: Any) -> None:
    graph = StateGraph(Log)
    graph.add_node("a", paint(lambda state: {"x": 1})).add_node("b", paint(lambda state: {"x": 2}))
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    with pytest.raises(ConflictingWrites) as caught:
        driver.invoke(app, {"x": 0})

    assert caught.value.channel == "x"
    assert caught.value.nodes == ("a", "b")


def test_two_sends_that_write_a_plain_field_conflict(driver: Any) -> None:
    graph = StateGraph(Log).add_node("a", lambda state: [Send("w", 1), Send("w", 2)], destinations=["w"])
    app = graph.add_node("w", lambda value: {"x": value}).add_edge(START, "a").compile()

    with pytest.raises(ConflictingWrites, match="'x'"):
        driver.invoke(app, {"x": 0})


def test_an_empty_update_is_not_a_writer() -> None:
    assert parallel(Log, {}, {"x": 1}, None).invoke({"x": 0}) == {"x": 1, "log": []}


def test_a_custom_reducer_applies_updates_in_task_order(driver: Any) -> None:
    app = parallel({"text": lambda old, new: f"({old}{new})"}, {"text": "a"}, {"text": "b"}, {"text": "c"})

    assert driver.invoke(app, {"text": "0"}) == {"text": "(((0a)b)c)"}


def test_a_reducer_starts_with_the_default_of_the_field_or_an_empty_value() -> None:
    @dataclass
    class State:
        total: Annotated[int, operator.add] = 10
        names: Annotated[list[str], operator.add] = field(default_factory=list)

    app = StateGraph(State).add_node("a", lambda s: {"total": 1, "names": ["n"]}).add_edge(START, "a").compile()

    assert app.invoke({}) == {"total": 11, "names": ["n"]}


def test_without_a_start_value_the_first_update_is_the_value() -> None:
    class Money:
        def __init__(self, amount: int) -> None:
            self.amount = amount

    def add(old: Money, new: Money) -> Money:
        return Money(old.amount + new.amount)

    class State(TypedDict, total=False):
        money: Annotated[Money, add]

    app = parallel(State, {"money": Money(1)}, {"money": Money(2)})

    assert app.invoke({})["money"].amount == 3


def test_compiling_refuses_a_reducer_with_the_wrong_number_of_parameters() -> None:
    class State(TypedDict):
        x: Annotated[int, lambda only: only]

    with pytest.raises(InvalidGraph, match=r"'x'.*two positional parameters"):
        StateGraph(State).add_node("a", lambda s: None).add_edge(START, "a").compile()


def test_two_reducers_for_one_field_are_an_error_that_names_both() -> None:
    def first(old: int, new: int) -> int:
        return old

    def second(old: int, new: int) -> int:
        return new

    class One(TypedDict):
        x: Annotated[int, first]

    class Two(TypedDict):
        x: Annotated[int, second]

    graph = StateGraph(One, input_schema=Two).add_node("a", lambda s: None).add_edge(START, "a")

    with pytest.raises(InvalidGraph, match=r"(?s)'x'.*first.*second|'x'.*second.*first"):
        graph.compile()


def test_an_exception_of_a_reducer_names_the_channel_and_the_writer(driver: Any) -> None:
    def picky(old: Any, new: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        driver.invoke(parallel({"x": picky}, {"x": 1}, {"y": 1}), {"x": 0})

    assert any("'x'" in note and "'w0'" in note for note in caught.value.__notes__)


# -- Overwrite


def test_overwrite_bypasses_the_reducer_and_wins_over_siblings(driver: Any) -> None:
    app = parallel(Log, {"log": ["a"]}, {"log": Overwrite(["only"])}, {"log": ["c"]})

    assert driver.invoke(app, {"log": ["old"]}) == {"log": ["only"]}


def test_two_overwrites_of_one_channel_in_one_superstep_conflict(driver: Any) -> None:
    app = parallel(Log, {"log": Overwrite(["a"])}, {"log": Overwrite(["b"])})

    with pytest.raises(ConflictingWrites, match="Overwrite"):
        driver.invoke(app, {"log": []})


@pytest.mark.parametrize("form", [Overwrite(5), {"__overwrite__": 5}, {"type": "__overwrite__", "value": 5}])
def test_overwrite_has_json_forms(form: Any) -> None:
    class State(TypedDict, total=False):
        x: Annotated[int, operator.add]

    assert parallel(State, {"x": form}).invoke({"x": 1}) == {"x": 5}


def test_overwrite_of_an_empty_channel_stores_the_value_itself() -> None:
    app = parallel({"x": lambda old, new: old + new}, {"x": Overwrite(7)})

    assert app.invoke({"y": 0})["x"] == 7


def test_overwrite_of_a_plain_field_sets_its_value(driver: Any) -> None:
    assert driver.invoke(parallel(Log, {"x": Overwrite(3)}), {"x": 1}) == {"x": 3, "log": []}


# -- 1.3 Ephemeral: the rule in six parts


def signal_graph(**nodes: Any) -> StateGraph:
    graph = StateGraph({"signal": Ephemeral(), "log": append})
    for name, node in nodes.items():
        graph.add_node(name, node)
    return graph


def test_the_conditional_edge_of_its_writer_sees_an_ephemeral(driver: Any) -> None:
    graph = signal_graph(a=lambda s: {"signal": "boom"}, bad=lambda s: {"log": "bad"}, good=lambda s: {"log": "good"})
    graph.add_conditional_edges("a", lambda s: "bad" if s.get("signal") else "good", ["bad", "good"])

    assert driver.invoke(graph.add_edge(START, "a").compile(), {"log": []}) == {"log": ["bad"]}


def test_only_nodes_of_the_next_superstep_see_an_ephemeral(driver: Any) -> None:
    def see(name: str) -> Any:
        return lambda state: {"log": f"{name}:{state.get('signal')}"}

    graph = signal_graph(a=lambda s: {"signal": "s"}, b=see("b"), c=see("c"), d=see("d"))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("b", "d")

    assert driver.invoke(graph.compile(), {"log": []}) == {"log": ["b:s", "c:s", "d:None"]}


def test_an_ephemeral_can_be_written_again_in_the_next_superstep(driver: Any) -> None:
    def rewrite(state: Any) -> Any:
        return {"signal": "2", "log": state.get("signal")}

    graph = signal_graph(a=lambda s: {"signal": "1"}, b=rewrite, c=lambda s: {"log": s.get("signal")})
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")

    assert driver.invoke(graph.compile(), {"log": []}) == {"log": ["1", "2"]}


def test_an_ephemeral_is_not_part_of_the_output(driver: Any) -> None:
    app = signal_graph(a=lambda s: {"signal": "s"}).add_edge(START, "a").compile()

    assert driver.invoke(app, {"log": []}) == {"log": []}
    assert driver.stream(app, {"log": []}, stream_mode="values") == [{"log": []}, {"log": []}]


def test_an_ephemeral_is_saved_in_the_checkpoint_between_two_supersteps(driver: Any) -> None:
    graph = signal_graph(a=lambda s: {"signal": "s"}, b=lambda s: {"log": s.get("signal")})
    app = graph.add_edge(START, "a").add_edge("a", "b").compile(InMemorySaver(), interrupt_after="a")

    assert driver.invoke(app, {"log": []}, thread_id="1") == {"log": []}
    assert driver.invoke(app, None, thread_id="1") == {"log": ["s"]}


def test_siblings_do_not_see_an_ephemeral_in_the_same_superstep(driver: Any) -> None:
    graph = signal_graph(a=lambda s: {"signal": "s"}, b=lambda s: {"log": str(s.get("signal"))})
    app = graph.add_edge(START, "a").add_edge(START, "b").compile()

    assert driver.invoke(app, {"log": []}) == {"log": ["None"]}


def test_the_last_writer_of_an_ephemeral_in_task_order_wins(driver: Any) -> None:
    graph = signal_graph(a=lambda s: {"signal": "a"}, b=lambda s: {"signal": "b"}, c=lambda s: {"log": s["signal"]})
    app = graph.add_edge(START, "b").add_edge(START, "a").add_edge("a", "c").compile()

    assert driver.invoke(app, {"log": []}) == {"log": ["b"]}


def test_a_guarded_ephemeral_refuses_two_writers() -> None:
    app = parallel({"signal": Ephemeral(guard=True)}, {"signal": 1}, {"signal": 2})

    with pytest.raises(ConflictingWrites, match="guarded"):
        app.invoke({"x": 1})


def test_only_conditional_edges_see_an_ephemeral_of_lifetime_step(driver: Any) -> None:
    graph = StateGraph({"signal": Ephemeral(lifetime="step"), "log": append})
    graph.add_node("a", lambda s: {"signal": "s"}).add_node("b", lambda s: {"log": str(s.get("signal"))})
    graph.add_conditional_edges("a", lambda s: "b" if s.get("signal") == "s" else END, ["b", END])

    assert driver.invoke(graph.add_edge(START, "a").compile(), {"log": []}) == {"log": ["None"]}


def test_only_the_first_superstep_sees_an_ephemeral_of_the_input(driver: Any) -> None:
    graph = signal_graph(a=lambda s: {"log": str(s.get("signal"))}, b=lambda s: {"log": str(s.get("signal"))})
    app = graph.add_edge(START, "a").add_edge("a", "b").compile()

    assert driver.invoke(app, {"log": [], "signal": "in"}) == {"log": ["in", "None"]}


# -- other channels


def test_a_topic_lasts_for_one_superstep_or_accumulates(driver: Any) -> None:
    graph = StateGraph({"now": Topic(), "all": Topic(accumulate=True), "log": append})
    graph.add_node("a", lambda s: {"now": ["a", "b"], "all": "a"})
    graph.add_node("b", lambda s: {"log": [list(s["now"])], "all": "b"})
    graph.add_node("c", lambda s: {"log": [list(s.get("now", []))]})
    app = graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").compile()

    result = driver.invoke(app, {"log": []})

    assert result["log"] == [["a", "b"], []]
    assert result["all"] == ["a", "b"]


def test_any_value_takes_the_last_of_several_writes(driver: Any) -> None:
    assert driver.invoke(parallel({"x": AnyValue()}, {"x": 1}, {"x": 2}), {"y": 0})["x"] == 2


def test_untracked_values_are_not_saved_in_checkpoints_or_sends(driver: Any) -> None:
    seen: list[Any] = []
    graph = StateGraph({"secret": Untracked(), "log": append})
    graph.add_node(
        "a", lambda s: Command(update={"secret": 1}, goto=Send("b", {"secret": 2, "n": 1})), destinations=["b"]
    )
    graph.add_node("b", lambda arg: seen.append(dict(arg)))
    saver = InMemorySaver()
    app = graph.add_edge(START, "a").compile(saver, interrupt_before="b")

    driver.invoke(app, {"log": []}, thread_id="1")
    saved = saver.load("1")
    driver.invoke(app, None, thread_id="1")

    assert saved is not None
    assert "secret" not in saved.checkpoint.values
    assert seen == [{"n": 1}]


# -- 1.4 messages


def test_a_node_of_a_messages_graph_can_return_a_message_or_a_list(driver: Any) -> None:
    graph = MessagesStateGraph()
    graph.add_node("one", lambda s: Message("one", "assistant", id="1"))
    graph.add_node(
        "many", lambda s: [Message("two", "assistant", id="2"), {"role": "user", "content": "three", "id": "3"}]
    )
    app = graph.add_edge(START, "one").add_edge("one", "many").compile()

    result = driver.invoke(app, {"messages": [("user", "hi")]})

    assert [message.text for message in result["messages"]] == ["hi", "one", "two", "three"]


def test_a_mapping_without_schema_keys_is_a_message() -> None:
    graph = MessagesStateGraph()
    graph.add_node("update", lambda s: {"messages": "text"})
    graph.add_node("message", lambda s: {"role": "assistant", "content": "bare"})
    app = graph.add_edge(START, "update").add_edge("update", "message").compile()

    assert [message.text for message in app.invoke({"messages": []})["messages"]] == ["text", "bare"]


def test_messages_are_replaced_and_removed_by_id(driver: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("edit", lambda s: {"messages": [Message("new", "assistant", id="1")]})
    graph.add_node("drop", lambda s: {"messages": [RemoveMessage("2")]})
    app = graph.add_edge(START, "edit").add_edge("edit", "drop").compile()
    messages = [Message(str(number), "user", id=str(number)) for number in (1, 2, 3)]

    result = driver.invoke(app, {"messages": messages})

    assert [(message.id, message.text) for message in result["messages"]] == [("1", "new"), ("3", "3")]


def test_all_messages_can_be_removed_at_once() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("clear", lambda s: {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), Message("x", "user", id="x")]})

    assert [
        message.text for message in graph.add_edge(START, "clear").compile().invoke({"messages": ["a"]})["messages"]
    ] == ["x"]


def test_removing_an_unknown_message_is_an_error() -> None:
    graph = StateGraph(MessagesState).add_node("drop", lambda s: {"messages": RemoveMessage("nope")})

    with pytest.raises(Exception, match="nope"):
        graph.add_edge(START, "drop").compile().invoke({"messages": []})


def test_message_ids_do_not_change_when_the_thread_is_loaded_again(driver: Any) -> None:
    graph = StateGraph(MessagesState).add_node("say", lambda s: {"messages": ["hello"]}).add_edge(START, "say")
    saver = InMemorySaver()
    driver.invoke(graph.compile(saver), {"messages": ["hi"]}, thread_id="1")
    first = graph.compile(saver).get_state(thread_id="1").values["messages"]
    second = graph.compile(saver).get_state(thread_id="1").values["messages"]

    assert [message.id for message in first] == [message.id for message in second]
    assert len({message.id for message in first}) == 2
    assert all(message.id for message in first)


def test_a_replay_gives_messages_the_same_ids(driver: Any) -> None:
    graph = StateGraph(MessagesState).add_node("say", lambda s: {"messages": ["hello"]}).add_edge(START, "say")
    app = graph.compile(InMemorySaver())
    driver.invoke(app, {"messages": ["hi"]}, thread_id="1")
    first = app.get_state(thread_id="1")
    before = first.parent_config

    replayed = driver.invoke(app, None, before)

    assert [message.id for message in replayed["messages"]] == [message.id for message in first.values["messages"]]


def test_add_messages_outside_a_graph_assigns_random_ids() -> None:
    assert add_messages([], ["a"])[0].id != add_messages([], ["a"])[0].id


# -- 1.6 managed values


def test_managed_values_are_computed_and_not_part_of_the_state(driver: Any) -> None:
    class State(TypedDict, total=False):
        log: Annotated[list[Any], append]
        last: IsLastStep
        left: RemainingSteps

    def see(state: Any) -> Any:
        return {"log": [(state["last"], state["left"])]}

    graph = StateGraph(State).add_node("a", see).add_node("b", see).add_edge(START, "a").add_edge("a", "b")

    result = driver.invoke(graph.compile(), {"log": []}, recursion_limit=2)

    assert result == {"log": [(False, 2), (True, 1)]}


def test_managed_values_are_refused_in_input_and_output_schemas() -> None:
    class State(TypedDict, total=False):
        x: int

    class Wrong(TypedDict, total=False):
        last: IsLastStep

    graph = (
        StateGraph(State, input_schema=Wrong, output_schema=Wrong).add_node("a", lambda s: None).add_edge(START, "a")
    )

    with pytest.raises(InvalidGraph) as caught:
        graph.compile()
    assert sum("'last'" in problem for problem in caught.value.problems) == 2


# -- 1.7 changes in place


def test_in_place_changes_of_a_node_input_do_not_reach_other_nodes(driver: Any, paint: Any) -> None:
    def messy(state: Any) -> None:
        state["x"] = 99
        state.pop("log")

    graph = StateGraph(Log).add_node("messy", paint(messy)).add_node("other", paint(lambda s: {"log": [str(s["x"])]}))
    app = graph.add_edge(START, "messy").add_edge(START, "other").add_edge("messy", "other").compile()

    assert driver.invoke(app, {"x": 1, "log": []}) == {"x": 1, "log": ["1", "1"]}


def test_a_run_does_not_change_the_input_of_its_caller(driver: Any) -> None:
    input_ = {"x": 1, "log": ["start"]}
    app = StateGraph(Log).add_node("a", lambda s: {"x": 2, "log": ["a"]}).add_edge(START, "a").compile()

    driver.invoke(app, input_)

    assert input_ == {"x": 1, "log": ["start"]}


def test_changing_a_returned_update_later_does_not_change_the_state(driver: Any) -> None:
    result = {"log": ["a"]}

    def b(state: Any) -> Any:
        result["log"].append("sneaked")
        return {"x": len(state["log"])}

    app = StateGraph(Log).add_node("a", lambda s: result).add_node(b).add_edge(START, "a").add_edge("a", "b").compile()

    assert driver.invoke(app, {"x": 0}) == {"x": 1, "log": ["a"]}


def test_debug_reports_in_place_changes_of_nested_objects(driver: Any) -> None:
    def sloppy(state: Any) -> None:
        state["log"].append("in place")

    app = StateGraph(Log).add_node(sloppy).add_edge(START, "sloppy").compile(debug=True)

    with pytest.raises(MutatedState, match=r"'sloppy'.*'log'") as caught:
        driver.invoke(app, {"log": ["start"]})
    assert caught.value.channels == ("log",)


def test_debug_accepts_nodes_that_change_nothing_in_place(driver: Any, paint: Any) -> None:
    graph = (
        StateGraph(Log).add_node("a", paint(lambda s: {"log": ["a"]})).add_node("b", paint(lambda s: {"log": ["b"]}))
    )
    app = graph.add_edge(START, "a").add_edge(START, "b").compile(debug=True)

    assert driver.invoke(app, {"log": []}) == {"log": ["a", "b"]}


# -- 1.8 validation


class Checked(BaseModel):
    x: int = 0
    names: list[str] = []


def test_input_is_validated_by_default(driver: Any) -> None:
    app = StateGraph(Checked).add_node("a", lambda s: None).add_edge(START, "a").compile()

    with pytest.raises(InvalidUpdateError, match="x"):
        driver.invoke(app, {"x": "not a number"})
    assert driver.invoke(app, {"x": "7"})["x"] == 7


def test_updates_are_validated_only_with_validate_all(driver: Any) -> None:
    graph = StateGraph(Checked).add_node("a", lambda s: {"x": "wrong"}).add_edge(START, "a")

    assert driver.invoke(graph.compile(), {"x": 1})["x"] == "wrong"
    with pytest.raises(InvalidUpdateError, match="x"):
        driver.invoke(graph.compile(validate="all"), {"x": 1})


def test_the_input_instance_of_a_node_is_validated(driver: Any) -> None:
    graph = StateGraph(Checked).add_node("a", lambda s: {"x": "wrong"}).add_node("b", lambda s: None)

    with pytest.raises(InvalidUpdateError, match="x"):
        driver.invoke(graph.add_edge(START, "a").add_edge("a", "b").compile(), {"x": 1})


def test_validate_all_returns_an_instance_of_the_output_schema(driver: Any) -> None:
    app = StateGraph(Checked).add_node("a", lambda s: {"x": "7"}).add_edge(START, "a").compile(validate="all")

    assert driver.invoke(app, {"x": 1}) == Checked(x=7)


def test_validate_off_accepts_any_value(driver: Any) -> None:
    app = StateGraph(Checked).add_node("a", lambda s: {"x": s.x * 2}).add_edge(START, "a").compile(validate="off")

    assert driver.invoke(app, {"x": "ab"})["x"] == "abab"


COUNTS: list[int] = []


class Counted(str):
    """A text whose validations are counted."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        def count(value: Any) -> Any:
            COUNTS.append(1)
            return value

        return core_schema.no_info_plain_validator_function(count)


class CountedState(BaseModel):
    big: Counted = Counted("")
    x: int = 0


@pytest.mark.parametrize("nodes", [1, 10])
def test_an_unchanged_field_is_not_validated_again(driver: Any, nodes: int) -> None:
    graph = StateGraph(CountedState)
    names = [f"n{number}" for number in range(nodes)]
    graph.add_sequence([(name, lambda s: {"x": s.x + 1}) for name in names]).add_edge(START, "n0")
    graph.add_conditional_edges(names[-1], lambda s: "n0" if s.x < 20 else END, ["n0", END])
    app = graph.compile()
    COUNTS.clear()

    assert driver.invoke(app, {"big": "long", "x": 0})["x"] == 20
    assert len(COUNTS) <= 3, "once as input, once as an instance"


def test_unknown_keys_warn_once_per_node_and_key_and_are_dropped(driver: Any) -> None:
    graph = StateGraph(Log).add_node("a", lambda s: {"lgo": 1, "x": s["x"] + 1})
    graph.add_conditional_edges("a", lambda s: "a" if s["x"] < 3 else END, ["a", END])
    app = graph.add_edge(START, "a").compile()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = driver.invoke(app, {"x": 0})

    assert result == {"x": 3, "log": []}
    assert [warning.category for warning in caught] == [UnknownKeyWarning]
    assert "Did you mean 'log'?" in str(caught[0].message)


def test_unknown_keys_can_be_an_error_or_dropped_without_a_warning(driver: Any) -> None:
    graph = StateGraph(Log).add_node("a", lambda s: {"lgo": 1}).add_edge(START, "a")

    with pytest.raises(InvalidUpdateError, match=r"'lgo'.*Did you mean 'log'"):
        driver.invoke(graph.compile(unknown_keys="error"), {"x": 0})
    assert driver.invoke(graph.compile(unknown_keys="drop"), {"x": 0}) == {"x": 0, "log": []}


def test_a_compiled_graph_can_be_shared_between_os_threads() -> None:
    app = StateGraph(Log).add_node("a", lambda s: {"log": [str(s["x"])]}).add_edge(START, "a").compile()
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: app.invoke({"x": n, "log": []})["log"]}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {number: [str(number)] for number in range(8)}
