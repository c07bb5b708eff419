"""Transitions: the keys of `next`, which select the states that follow a state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, Literal

from statewright.graph import END, START, STOP
from statewright.workflow.states.expressions import Expression
from statewright.workflow.states.expressions.expression import LENGTH_LIMIT
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.schema.keys import Ignored, Key, Renamed
from statewright.workflow.states.language.schema.maps import ExclusiveKeys, MapSchema, ParsedMap
from statewright.workflow.states.language.schema.value_types import ListOf, Text
from statewright.workflow.states.language.yaml.nodes import NOWHERE, Mark, YamlNode, shorten

END_STATE: Final = "end"
"""The target that ends the run or the branch."""
RESERVED: Final = (START, END, STOP)
"""Node names that the engine reserves."""
Texts = tuple[str, ...]

# A `rule` is only published in the JSON Schema: other checks report the same mistakes with better advice.
_QUOTED: Final = r"'(?:[^'\\]|\\[\s\S])*'" + "|" + r'"(?:[^"\\]|\\[\s\S])*"'
_OPERATORS: Final = r"&(?!&)|\|(?!\|)|={1,2}(?!=)|!=(?!=)"
EXPRESSION: Final = Text(
    empty=False,
    rule={
        "maxLength": LENGTH_LIMIT,
        # Closed quotes, and outside of them none of the operators of other languages: && || ! ===
        "pattern": rf"""^(?:{_QUOTED}|{_OPERATORS}|[^'"&|=!#])*(?:#[\s\S]*)?$""",
        # A comparison with a single equals sign: score = 5
        "not": {"pattern": r"^\s*[A-Za-z_][\w.]*\s*=(?!=)"},
    },
)
TARGET: Final = Text(empty=False, rule={"not": {"enum": list(RESERVED)}})
Target = Annotated[str, TARGET]


# -- advice for invalid combinations of keys, in the author's own names


def _report_flat_condition(part: ParsedMap, diagnostics: Diagnostics) -> Collection[str]:
    """Report a condition that is a string with `then` and `else` next to it. Return the keys that were reported."""
    condition = part.content.get("condition")
    if condition is None or not isinstance(condition.content, str):
        return ()
    siblings = [name for name in ("then", "otherwise", "else") if name in part.content]
    then = _shorten_name(part.content.get("then"), default="the_state_if_true")
    otherwise = _shorten_name(part.content.get("otherwise", part.content.get("else")), default="the_state_if_false")
    expression = shorten(condition.content)
    diagnostics.error(
        Phase.FORM,
        *part.location("condition"),
        "'condition' must be a map with the keys expression, then and otherwise, but is a string.",
        f'Write condition: {{expression: "{expression}", then: {then}, otherwise: {otherwise}}}.',
    )
    return ("condition", *siblings)


def _shorten_name(node: YamlNode | None, *, default: str) -> str:
    return shorten(node.content) if node is not None and isinstance(node.content, str) else default


def _advise_for_condition(part: ParsedMap) -> str:
    """Return advice for a `next` with both a condition and an iter_key."""
    values: dict[str, Any] = next((condition.values for condition in part.parts("condition")), dict[str, Any]())
    expression, target, otherwise = (shorten(values.get(key, "...")) for key in ("expression", "then", "otherwise"))
    transition = f'condition: {{expression: "{expression}", then: pick_items, otherwise: {otherwise}}}'
    return _advise_to_split(part, transition, target)


def _advise_for_switch(part: ParsedMap) -> str:
    """Return advice for a `next` with both a switch and an iter_key."""
    cases = [case for switch in part.parts("switch") for case in switch.parts("cases")]
    target = shorten(cases[0].values.get("state_id", "...")) if cases else "..."
    return _advise_to_split(part, "switch: (unchanged, but with pick_items in place of that target)", target)


def _advise_to_split(part: ParsedMap, transition: str, target: str) -> str:
    key = shorten(part.values.get("iter_key", "items"))
    return (
        f"Split it into two states: this one decides, with next: {{{transition}}}; a new state 'pick_items' iterates, "
        f"with next: {{state_id: {target}, iter_key: {key}}}. The result of the new state must contain {key!r}; use a "
        f"custom node of kind transform_node that extracts it from the context."
    )


# -- the keys


@dataclass(frozen=True, slots=True)
class Condition:
    """A choice between two targets."""

    schema: ClassVar = MapSchema(
        "condition", "a map with the keys expression, then and otherwise", noun="The condition"
    )
    expression: Annotated[
        Expression,
        EXPRESSION,
        Key("A condition on the result, such as \"status == 'ok'\".", aliases=("if", "condition", "when", "test")),
    ]
    then: Annotated[Target, Key("The state if the condition is true.", aliases=("true", "yes"))]
    otherwise: Annotated[
        Target,
        Key("The state if the condition is false, or cannot be evaluated.", aliases=("else", "default", "false", "no")),
    ]
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a switch."""

    schema: ClassVar = MapSchema("case", "a map with the keys condition and state_id", noun="The case")
    condition: Annotated[
        Expression,
        replace(EXPRESSION, advice="Write condition: the expression itself, as a string."),
        Key("A condition on the result, such as 'score >= 90'.", aliases=("expression", "if", "when", "case")),
    ]
    state_id: Annotated[Target, Key("The state if the condition is true.", aliases=("then", "goto", "target"))]
    iter_key: ClassVar = Ignored("the target of a case runs once. Iterate from there.")
    at: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Switch:
    """A choice between several targets: the first case whose condition is true wins."""

    schema: ClassVar = MapSchema(
        "switch",
        "a map with the keys cases and default",
        noun="The switch",
        advice="Write switch: {cases: [{condition: ..., state_id: ...}], default: ...}.",
    )
    cases: Annotated[tuple[Case, ...], Key("The cases, tested in order.")]
    default: Annotated[Target, Key("The state if no condition is true.", aliases=("otherwise", "else"))]
    at: Mark = NOWHERE


_ONE_TRANSITION: Final = "Keep one of them: a state has one transition."


@dataclass(frozen=True, slots=True)
class Next:
    """The transition of a state, and its effects on context and history.

    Exactly one kind of transition is set.
    """

    schema: ClassVar = MapSchema(
        "next",
        "a map that describes the transition",
        noun="'next'",
        advice="Write next: {state_id: the_state}.",
        one_of=("state_id", "state_ids", "condition", "switch"),
        check_mistakes=_report_flat_condition,
        exclusive=(
            ExclusiveKeys("condition", "switch", _ONE_TRANSITION),
            ExclusiveKeys("state_id", "state_ids", _ONE_TRANSITION),
            ExclusiveKeys(
                "state_ids", "iter_key", "Iterate with state_id, and write state_ids in the last state of the chain."
            ),
            ExclusiveKeys("state_ids", "condition", _ONE_TRANSITION),
            ExclusiveKeys("state_ids", "switch", _ONE_TRANSITION),
            ExclusiveKeys("iter_key", "condition", _advise_for_condition),
            ExclusiveKeys("iter_key", "switch", _advise_for_switch),
        ),
        requires=(("iter_key", "state_id"),),
    )
    state_id: Annotated[
        str | None,
        replace(TARGET, advice="Write one state, or state_ids: [...] for several that run concurrently."),
        Key("The next state; end for none.", aliases=("goto", "state", "target", "to")),
    ] = None
    state_ids: Annotated[
        tuple[Target, ...] | None,
        ListOf(at_least=1, distinct=True, advice="Write the next states, or state_id: end."),
        Key("The next states, which run concurrently.", aliases=("states",)),
    ] = None
    condition: Annotated[Condition | None, Key("A choice between two targets.", aliases=("if",))] = None
    switch: Annotated[Switch | None, Key("A choice between several targets.", aliases=("cases",))] = None
    iter_key: Annotated[
        str | None,
        Text(rule={"minLength": 1}),
        Key("The path of a list in the result: the target runs once for each item."),
    ] = None
    output_key: Annotated[str | None, Key("Also store the result in the context under this key.")] = None
    store_in_context: Annotated[bool, Key("Whether the result is stored in the context.")] = True
    include_in_llm_history: Annotated[bool, Key("Whether the result is added to the history.")] = True
    keep_history: ClassVar = Renamed("include_in_llm_history", both_allowed=True)
    clear_prior_messages: Annotated[bool, Key("Whether the earlier history is removed.")] = False
    clear_context_store: Annotated[
        bool | Literal["keep_current"],
        Key("Whether the context is emptied; keep_current keeps what this state stored."),
    ] = False
    reset_keys_in_context_store: Annotated[Texts, Key("Keys that are removed from the context.", default=None)] = ()
    override_task: Annotated[bool, Key("In an iteration: the result becomes the item of the next state.")] = False
    append_to_context: Annotated[bool, Key("Whether values are appended to lists.")] = False
    include_in_iterator_context: Annotated[
        Texts, Key("The keys of the context that the branches of an iteration see; * for all.")
    ] = ("*",)
    use_flyweight_history: ClassVar = Ignored("histories are always shared.")
    at: Mark = NOWHERE
    branches: tuple[tuple[Expression | None, str], ...] = field(init=False, repr=False, compare=False)
    """The tests and targets of a condition or a switch, in order; the last one has no test. Empty for others."""
    targets: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """All possible targets, in the order of the file."""

    def __post_init__(self) -> None:
        branches: list[tuple[Expression | None, str]] = []
        if self.condition is not None:
            branches = [(self.condition.expression, self.condition.then), (None, self.condition.otherwise)]
        elif self.switch is not None:
            branches = [(case.condition, case.state_id) for case in self.switch.cases]
            branches.append((None, self.switch.default))
        if branches:
            object.__setattr__(self, "state_id", None)  # ignored, about which a check has warned
        targets = [target for _, target in branches] or self.state_ids or [self.state_id]
        object.__setattr__(self, "branches", tuple(branches))
        object.__setattr__(self, "targets", tuple(target for target in targets if target is not None))
