"""The meaning of each part of the language, unsupported syntax, and protection against hostile values."""

from typing import Any

import pytest
from tests.work import spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression

SCOPE: dict[str, Any] = {
    "a": 2,
    "b": 3,
    "n": 10,
    "total": 17,
    "price": 2.5,
    "quantity": 4,
    "value": 50,
    "numbers": [1, 2, 3],
    "items": ["x", "y", "z"],
    "data": {"items": [{"name": "first"}], "user": {"name": "Ann"}, "keys": "own"},
    "pr": {"id": 7},
    "item": {"name": "target-1", "priority": "high", "active": True},
    "users": {"status": "active", "first_name": " Ann "},
    "email": "  A@B.com ",
    "first_name": "Ann",
    "last_name": "Lee",
    "phone": "5551234",
    "none": None,
    "active": True,
    "action": "opened",
    "status": "failed",
    "urgency": 3,
    "importance": 5,
    "sum": 40,
    "_id": "under",
    "text": "abc",
    "label_names": ["WS", "critical"],
}


def evaluate(text: str, **names: Any) -> Any:
    return parse_expression(text).evaluate(SCOPE | names)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 < value < 100", True),
        ("1 < value < 50", False),
        ("1 < 0 < missing", False),
        ("n % 3", 1),
        ("total // 3", 5),
        ("total / 4", 4.25),
        ("a + b", 5),
        ("a - b", -1),
        ("-a", -2),
        ("+a", 2),
        ("price * quantity", 10.0),
        ("urgency * 2 + importance", 11),
        ("items[0]", "x"),
        ("items[-1]", "z"),
        ("items[1:3]", ["y", "z"]),
        ("items[:1]", ["x"]),
        ("items[1:]", ["y", "z"]),
        ("text[1]", "b"),
        ("text[:2]", "ab"),
        ("data['items'][0]['name']", "first"),
        ('item["priority"] == "high"', True),
        ("pr.id", 7),
        ("data.user.name", "Ann"),
        ("data.items", [{"name": "first"}]),
        ("data.keys", "own"),
        ("data.keys()", ["items", "user", "keys"]),
        ("data['items'][0].items()", [["name", "first"]]),
        ("data.user.values()", ["Ann"]),
        ("'yes' if active else 'no'", "yes"),
        ("'yes' if not active else missing if none else 'no'", "no"),
        ("[a, b]", [2, 3]),
        ("(a, b)", [2, 3]),
        ("()", []),
        ("{'x': a, 'y': [b]}", {"x": 2, "y": [3]}),
        ("{1: 'low', 2: 'high'}[a]", "high"),
        ("{1: 'low', True: a}", {"1": 2}),
        ("isinstance(value, int)", True),
        ("isinstance(value, (str, float))", False),
        ("isinstance(items, list) and isinstance(data, dict)", True),
        ("isinstance(active, bool)", True),
        ("min(a, b)", 2),
        ("max(numbers)", 3),
        ("bool(value)", True),
        ("none is None", True),
        ("none is null", True),
        ("phone is not None and phone.startswith('555')", True),
        ("phone is not None and len(phone) > 0", True),
        ("a is a", True),
        ("a is 2.0", False),
        ("active is true", True),
        ("status not in ['ok', 'done']", True),
        ("action in ['opened', 'updated', 'reopened']", True),
        ("action in ('opened', 'updated')", True),
        ("'user' in data", True),
        ("'b' in text", True),
        ("email.lower().strip()", "a@b.com"),
        ("f'{first_name} {last_name}'", "Ann Lee"),
        ("f'{price:.2f} {a:>4d} {text:<5}|'", "2.50    2 abc  |"),
        ("f'{none} {active} {items}'", "None True ['x', 'y', 'z']"),
        ("sum(numbers)", 6),
        ("sum > 35", True),
        ("users.get('first_name', '').strip()", "Ann"),
        ("users.get('status') == 'active'", True),
        ("users.get('missing')", None),
        ("item.get('active', False)", True),
        ("item.get('name', '').startswith('target-')", True),
        ("'WS' in label_names", True),
        ("active or missing", True),
        ("none and missing", None),
        ("a == 1 or b", 3),
        ("not a", False),
        ("true", True),
        ("false", False),
        ("null", None),
        ("True == true and None == null", True),
        ("1 == True", True),
        ("'ab' * 3", "ababab"),
        ("2 * [a]", [2, 2]),
        ("items + [a]", ["x", "y", "z", 2]),
        ("'a' + 'b'", "ab"),
        ("_id", "under"),
        ("'{' in '{x}'", True),
        ("1e3 == 1000", True),
        ("data == data", True),
    ],
)
def test_4_2_supported_expressions_evaluate_as_in_python(text: str, value: Any):
    result = evaluate(text)

    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "lambda: 1",
        "(lambda x: x)(1)",
        "[x for x in items]",
        "{x for x in items}",
        "{x: 1 for x in items}",
        "any(x for x in items)",
        "(y := 1)",
        "max(*items)",
        "{**data}",
        "dict(**data)",
        "sorted(items, reverse=True)",
        "a & b",
        "a | b",
        "a ^ b",
        "~a",
        "a << b",
        "a >> b",
        "a @ b",
        "a ** b",
        "{1, 2}",
        "{{status}} == 'ok'",
        "b'bytes'",
        "1j",
        "...",
        "1e999",
        "0x" + "f" * 300,
        "items[::2]",
        "items[1:2, 3]",
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "open('/etc/passwd')",
        "getattr(a, 'real')",
        "type(a)",
        "__import__('os')",
        "globals()",
        "print(a)",
        "dict()",
        "set(items)",
        "range(3)",
        "map(str, items)",
        "__builtins__",
        "a.__class__",
        "a.__class__.__mro__",
        "''.__class__.__mro__[1].__subclasses__()",
        "().__class__",
        "items.__len__()",
        "data['items'].__class__",
        "'{0.__class__}'.format(a)",
        "'{0}'.format_map(data)",
        "items.clear()",
        "items.sort()",
        "items.append(1)",
        "items.pop()",
        "data.update(data)",
        "data.pop('items')",
        "data.setdefault('x', 1)",
        "list.clear(items)",
        "str.format('{}', a)",
        "text.encode()",
        "items[0]()",
        "isinstance(a, type)",
        "isinstance(a, object)",
        "isinstance(a)",
        "isinstance(a, ())",
        "f'{a!r}'",
        "f'{a:{b}}'",
        "f'{a:999999999}'",
        "f'{a.__class__}'",
        "not_known(a)",
    ],
)
def test_4_3_unsupported_syntax_is_listed_and_never_evaluated(text: str):
    expression = parse_expression(text)

    assert expression.unsupported
    assert all(sentence.endswith(".") and "column" in sentence for sentence in expression.unsupported)
    with pytest.raises(ExpressionError, match="not part of the expression language"):
        expression.evaluate(SCOPE)


def test_1_8_unsupported_syntax_raises_even_if_it_is_not_reached():
    expression = parse_expression("active or (lambda: 1)")

    assert expression.unsupported == ("`lambda` at column 12 is not part of the expression language.",)
    with pytest.raises(ExpressionError):
        expression.evaluate(SCOPE)


def test_supported_expressions_list_no_unsupported_syntax():
    assert parse_expression("count > 10 and status.lower() == 'active'").unsupported == ()


@pytest.mark.parametrize(
    "text",
    [
        "missing",
        "a == 2 and missing",
        "1 / 0",
        "1 // 0",
        "1 % 0",
        "1.0 % 0",
        "a > text",
        "none > 1",
        "a + text",
        "text - text",
        "-text",
        "+none",
        "long + 1",
        "-long",
        "long % 2",
        "abs(long)",
        "round(long)",
        "sum([long])",
        "f'{long:d}'",
        "'%s' % a",
        "'%999999999d' % a",
        "a in b",
        "1 in text",
        "data.missing",
        "text.missing",
        "items.first",
        "text.lower",
        "data.get",
        "a.lower()",
        "data.lower()",
        "items.lower()",
        "none.get('x')",
        "data['missing']",
        "items[9]",
        "items['a']",
        "items[1.5]",
        "a[0]",
        "a[0:1]",
        "data[items]",
        "data[0:1]",
        "items['a':]",
        "{items: 1}",
        "len",
        "len(a)",
        "len(items, items)",
        "min()",
        "min([])",
        "max(items, 1)",
        "sum(items)",
        "sum(a)",
        "sum(numbers, items)",
        "abs(text)",
        "int('x')",
        "int([])",
        "float('nan')",
        "float('inf')",
        "round(text)",
        "round(a, text)",
        "sorted([1, 'a'])",
        "list(a)",
        "any(a)",
        "text.split('')",
        "text.replace('a')",
        "text.startswith(1)",
        "items.index('nope')",
        "1e308 * 10",
        "9223372036854775807 + 1",
        "-9223372036854775807 - 2",
        "int('9' * 30)",
        "int('9' * 10000)",
        "int(1e300)",
        "10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10 * 10",
    ],
)
def test_4_2_failed_evaluations_raise_expression_errors(text: str):
    expression = parse_expression(text)

    assert expression.unsupported == ()
    with pytest.raises(ExpressionError):
        expression.evaluate(SCOPE | {"long": 2**5000})


def test_long_integers_can_be_compared_and_formatted():
    assert evaluate("long == other and str(long) == digits", long=10**40, other=10**40, digits="1" + "0" * 40)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("'a' * 10000000000", {}),
        ("10000000000 * 'a'", {}),
        ("[1] * 10000000000", {}),
        ("big * 2", {}),
        ("big + big", {}),
        ("big.replace('a', 'aaaaaaaa')", {}),
        ("big.replace('', big)", {}),
        ("f'{big}{big}'", {}),
        ("[[[[[[[['aaaaaaaaaa'] * 100] * 100] * 100] * 100] * 100] * 100] * 100]", {}),
        ("str(huge)", {}),
        ("f'{huge}'", {}),
        ("round(1, -1000000000)", {}),
        ("round(5, 1000000000)", {}),
        ("big.strip(big)", {}),
        ("deep == deeper", {}),
        ("str(deep)", {}),
    ],
)
def test_4_1_evaluation_is_limited_in_memory_and_time(text: str, names: dict[str, Any]):
    deep: list[Any] = []
    deeper: list[Any] = []
    for _ in range(100_000):
        deep, deeper = [deep], [deeper]
    scope = {"big": "a" * 60_000, "huge": ["a" * 1000] * 1000, "deep": deep, "deeper": deeper}

    with spend_at_most(), pytest.raises(ExpressionError):
        parse_expression(text).evaluate(scope)


def test_4_1_the_work_of_one_evaluation_is_limited():
    text = " or ".join(["big.count('b') > 0"] * 20)

    with pytest.raises(ExpressionError, match="too much work"):
        parse_expression(text).evaluate({"big": "a" * 2_000_000})
    assert parse_expression("'error' in log.lower()").evaluate({"log": "x" * 1_000_000 + "ERROR"}) is True


def test_4_1_evaluation_does_not_change_its_scope():
    scope: dict[str, Any] = {"items": [1, 2], "data": {"k": [1]}}
    for text in ("sorted(items)", "items + [3]", "list(items)", "data.get('k') + [2]", "data.items()"):
        parse_expression(text).evaluate(scope)

    assert scope == {"items": [1, 2], "data": {"k": [1]}}


def test_4_1_attributes_of_objects_are_not_accessible():
    class Trap:
        secret = "no"

        def lower(self) -> str:
            return "no"

    for text in ("trap.secret", "trap.lower()", "trap[0]", "len(trap)", "str(trap.secret)"):
        with pytest.raises(ExpressionError):
            parse_expression(text).evaluate({"trap": Trap()})
