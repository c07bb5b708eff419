"""Templates of section 2.3: replaced and unchanged placeholders, and protection against hostile values."""

import asyncio
import copy
import pickle
import re
import threading
import tracemalloc
from typing import Any

import pytest
from tests.work import check_linear, count_work, spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.templates import Template, parse_template, render_off_loop, render_values
from statewright.workflow.states.templates.placeholder import PROBLEMS_LIMIT
from statewright.workflow.states.templates.rendering import OUTPUT_LIMIT
from statewright.workflow.states.templates.template import SIZE_LIMIT

SCOPE: dict[str, Any] = {
    "u": 1,
    "my-key": "dashed",
    "my": 10,
    "key": 4,
    "name": "Ann",
    "d": {"items": 5, "list": [1, 2], "a-b": "x", "none": None},
    "lst": [3, 1, 2],
    "flag": True,
    "nothing": None,
    "price": 2.5,
    "text": "naïve 'q' \"d\"",
    "a b": "spaced",
    "a.b": "dotted",
    "task": {"id": 1, "title": "é"},
}


def render(text: str, scope: dict[str, Any] | None = None) -> str:
    return parse_template(text).render(SCOPE if scope is None else scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{u}}", "1"),
        ("{{ u }}", "1"),
        ("{{\tu\n}}", "1"),
        ("{{my-key}}", "dashed"),
        ("{{ d.items }}", "5"),
        ("{{d.a-b}}", "x"),
        ("{{d.list[0]}} {{d['items']}} {{d[\"a-b\"]}} {{d.list[-1]}} {{d.list.1}}", "1 5 x 2 2"),
        ("{{lst[1:]}}", "[1, 2]"),
        ("{{a b}} {{a.b}}", "spaced dotted"),
        ("{{flag}} {{nothing}} {{d.none}}", "true null null"),
        ("{{price}} {{text}}", "2.5 naïve 'q' \"d\""),
        ("{{task}}", '{"id": 1, "title": "é"}'),
        ("Execute {{task.id}}: {{task.title}}\n", "Execute 1: é\n"),
        ("{{lst}}", "[3, 1, 2]"),
        ("{{lst | join(', ')}} {{lst|sort|join}} {{lst|length}}", "3, 1, 2 123 3"),
        ("{{name|upper}} {{name|lower|trim}} {{name|length}} {{name|safe}}", "ANN ann 3 Ann"),
        ("{{name|tojson}} {{nope|default('x')}} {{nope|default}}|{{nothing|default('y', true)}}", '"Ann" x |y'),
        ('{"a": {{u}}}', '{"a": 1}'),
        ('{"a":{{u}}}', '{"a":1}'),
        ('{"a":{"b":{{u}}}}', '{"a":{"b":1}}'),
        ("{{{u}}}", "{1}"),
        ("{{u}}{{u}}", "11"),
        ("{{ {{u}} }}", "{{ 1 }}"),
        ("{{name.upper()}} {{name.upper}}", "ANN {{name.upper}}"),
        ("{{d.get('items')}} {{ d.keys()|sort|join('+') }}", "5 a-b+items+list+none"),
        ("{{u + 1}} {{u+1}} {{my - key}} {{key-my}} {{ my*key%7 }}", "2 2 6 -6 5"),
        ("{{'text'}} {{1}} {{ [u, 'x'] }} {{ {'a': u} }}", 'text 1 [1, "x"] {"a": 1}'),
        ("{{ 'yes' if flag else 'no' }}{{ 'never' if nothing }}", "yes"),
        ("{{ lst|map('string')|join('-') }} {{ lst|select('gt', 1)|list }}", "3-1-2 [3, 2]"),
        ("{{ name ~ '!' }} {{ name is string and u < 2 }}", "Ann! true"),
        ("{{ 'a/b/c'.rsplit('/', 1)[0] }}", "a/b"),
        ("{{ true }} {{ False }} {{ none }} {{ None|default('x', true) }}", "true false null x"),
        ("{{ ('a' if nothing) is defined }}", "false"),
        ("{{ 'a'.rsplit(sep='a', maxsplit=1) }}", '["", ""]'),
        ("{{ str(flag) }} {{ '%s' | format(flag) }} {{ flag ~ '' }} {{ [flag] | join }}", "true true true true"),
    ],
)
def test_2_3_placeholders_are_replaced_by_values(text: str, expected: str):
    assert render(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "{{nope}}",
        "{{ nope }}",
        "{{ nope.a.b }}",
        "{{d.nope}}",
        "{{d.list[9]}}",
        "{{u.real}}",
        "{{name.upper}}",
        "{{d.keys}}",
        "{{lst.append}}",
        "{{nope|upper}}",
        "{{u|unknown}}",
        "{{lst|join(nope)}}",
        "{{u|}}",
        "{{|u}}",
        "{{}}",
        "{{ }}",
        "{{ ('a' if nothing) + 'b' }}",
        "{{ [[]]|map('first')|list }}",
        "{{ [d]|map(attribute='nope')|list }}",
        "{{u",
        "u}}",
        "{u}",
        "{ {u} }",
        "trailing newline\n",
        "two\n\n",
        "$HOME ${HOME} $(ls) `ls` \"${#array[@]}\" 'it''s' %s %(x)s {%Y} 100%} {# }",
        "awk '{print $1}' | sed 's/{/}/' && date +%F",
        "\\{\\{u\\}\\}",
    ],
)
def test_2_3_placeholders_without_a_value_stay_unchanged(text: str):
    assert render(text) == text


@pytest.mark.parametrize("text", ["{{u|join}}", "{{u|length}}", "{{name|sort}}", "{{u + name}}", "{{name.index('x')}}"])
def test_2_3_a_rendering_error_names_the_line(text: str):
    with pytest.raises(ExpressionError, match="Line 2 of the template cannot be rendered"):
        render(f"first\n{text}\nlast")


def test_2_3_a_placeholder_without_a_value_is_reported_once():
    reported: list[str] = []
    parse_template("{{nope}} {{u}} {{nope}} {{ u + nope }} {{ u|jion }}").render(SCOPE, on_unresolved=reported.append)
    render_values("{{ d.nope }}", SCOPE, on_unresolved=reported.append)

    assert reported == ["{{nope}}", "{{ u + nope }}", "{{ u|jion }}", "{{ d.nope }}"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n{{ u|jion }}", 2, "The filter 'jion'"),
        ("{{ u is jion }}", 1, "The test 'jion'"),
        ("{{ u.jion() }}", 1, r".jion\(\)"),
        ("{{ jion(u) }}", 1, r"jion\(\)"),
        ("\n\n{{ u u }} {{ u + }}", 3, "Expected token"),
        ("{{ f(*u) }}", 1, "Unpacking arguments"),
    ],
)
def test_2_3_an_invalid_placeholder_is_a_warning(text: str, line: int, message: str):
    warning = parse_template(text).warnings[0]

    assert warning.line == line
    assert re.match(message, warning.message)
    assert parse_template(text).errors == ()
    assert render(text) == text


def test_2_3_a_near_miss_is_suggested():
    assert "Did you mean 'join'?" in parse_template("{{ u|jion }}").warnings[0].suggestion


def test_2_3_only_placeholders_without_a_value_stay():
    assert render("{{u}} {{nope}} {{a.b.c}} {{u}}") == "1 {{nope}} {{a.b.c}} 1"


def test_2_3_an_empty_context_keeps_the_text():
    assert render("{{u}} and {{ v.w }}\n", {}) == "{{u}} and {{ v.w }}\n"


def test_2_3_an_exact_key_takes_precedence_over_a_path_and_a_filter():
    assert render("{{a.b}} {{a|upper}}", {"a.b": 1, "a": {"b": 2}, "a|upper": 3}) == "1 3"


@pytest.mark.parametrize(
    "value",
    [
        "{{u}}",
        "{{secret}}",
        "{% for x in lst %}{{x}}{% endfor %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{",
        "}}",
        "{%",
        "{#",
        "<script>&</script>",
    ],
)
def test_2_3_values_are_not_rendered_as_templates(value: str):
    scope = {"value": value, "secret": "hidden", "u": 1, "lst": [1]}

    assert render("a {{value}} b", scope) == f"a {value} b"
    assert render("{{value}}{{value}}", scope) == value * 2
    assert render("{{value}}{{u}}}}", scope) == value + "1}}"
    assert render("{% if u %}{{value}}{% endif %}", scope) == value


@pytest.mark.parametrize(
    "inner",
    [
        "''.__class__.__mro__[1].__subclasses__()",
        "u.__class__",
        "u.__class__.__init__.__globals__",
        "d.__class__",
        "d['__class__']",
        'd["__init__"]',
        "self.__init__.__globals__",
        "cycler.__init__.__globals__.os.popen('id').read()",
        "lipsum.__globals__",
        "request|attr('application')",
        "u|attr('__class__')",
        "'{0.__class__}'.format(u)",
        "config",
        "namespace.__init__",
        "range.__class__",
        "dict.__base__",
        "joiner",
        "_run",
        "__run",
        "loop",
        "().__class__",
        "[].__class__.__base__",
        "name.encode",
        "name.format",
    ],
)
def test_4_1_templates_cannot_reach_python_objects(inner: str):
    text = "{{ " + inner + " }}"
    in_blocks = "{% if u %}" + text + "{% endif %}"

    assert render(text) == text
    errors = parse_template(in_blocks).errors
    if errors:
        assert errors[0].message.endswith("is not supported in workflow templates.")
    else:
        assert render(in_blocks) == text


def test_2_3_a_single_placeholder_keeps_the_type_of_its_value():
    for name, value in SCOPE.items():
        assert render_values("{{" + name + "}}", SCOPE) is value
    assert render_values("{{d.list}}", SCOPE) == [1, 2]
    assert render_values("{{lst|sort}}", SCOPE) == [1, 2, 3]
    assert render_values("{{lst|length}}", SCOPE) == 3


def test_2_3_several_placeholders_produce_a_string():
    assert render_values("{{u}} ", SCOPE) == "1 "
    assert render_values("{{u}}{{u}}", SCOPE) == "11"
    assert render_values("plain", SCOPE) == "plain"
    assert render_values("{{nope}}", SCOPE) == "{{nope}}"
    assert render_values("", SCOPE) == ""
    assert render_values("{% if u %}{{u}}{% endif %}", SCOPE) == "1"


def test_2_3_templates_inside_maps_and_lists_are_rendered():
    args = {
        "url": "https://x/{{u}}",
        "headers": {"X-{{u}}": "Bearer {{name}}", "n": 5, "none": None},
        "body": [["{{lst}}", "{{nope}}"], {"deep": "{{d.items}}"}, True],
        "pair": ("{{u}}", 2),
    }

    assert render_values(args, SCOPE) == {
        "url": "https://x/1",
        "headers": {"X-{{u}}": "Bearer Ann", "n": 5, "none": None},
        "body": [[[3, 1, 2], "{{nope}}"], {"deep": 5}, True],
        "pair": [1, 2],
    }
    assert args["headers"]["X-{{u}}"] == "Bearer {{name}}"


def test_2_3_the_value_of_a_single_placeholder_is_plain_json():
    scope = {"people": [{"age": 3}], "l": [1], "big": [[1]]}

    groups = render_values("{{ people|groupby('age') }}", scope)
    assert groups == [[3, [{"age": 3}]]]
    assert type(groups[0]) is list
    assert render_values("{{ {1: true, none: 2} }}", scope) == {"1": True, "null": 2}
    assert render_values("{{ 'a' if false }}", scope) == ""
    for text in ("{{ people|map(attribute='x')|list }}", "{{ ('a' if false) + 'b' }}"):
        reported: list[str] = []
        assert render_values(text, scope, on_unresolved=reported.append) == text
        assert reported == [text]
    for text in ("{{ namespace() }}", "{{ [namespace()] }}"):
        with pytest.raises(ExpressionError, match="namespace"):
            render_values(text, scope)
    with pytest.raises(ExpressionError, match="too much work"):
        render_values("{{ l.append(l) or l }}", scope)


def test_4_1_render_values_limits_the_depth_and_the_total_work():
    value: Any = "{{u}}"
    for _ in range(3_000):
        value = [value]
    with pytest.raises(ExpressionError, match="levels of maps and lists"):
        render_values(value, SCOPE)
    texts = ["{{ lst | sort }}"] * 200
    assert render_values(texts, SCOPE)[-1] == [1, 2, 3]
    with pytest.raises(ExpressionError, match="too much work"):
        render_values(texts, SCOPE, work=20_000)


def test_4_1_the_total_length_of_compiled_expressions_is_limited():
    text = "".join("{{ '" + "x" * 900 + "' ~ " + str(number) + " }}" for number in range(150)) + "{{u}}"
    template = parse_template(text)

    assert template.warnings[0].message.startswith("Together, the expressions of this text have more than 100000")
    assert template.render(SCOPE).startswith("x" * 900 + "0x")
    assert template.render(SCOPE).endswith(" ~ 149 }}1")


def test_2_3_only_the_first_warnings_are_described():
    warnings = parse_template("".join(f"{{{{ u|nope{n} }}}}" for n in range(500))).warnings

    assert len(warnings) == PROBLEMS_LIMIT
    assert warnings[0].suggestion


def test_4_1_a_difference_is_compiled_once_and_charged_each_time():
    template = parse_template("{{ n-1 }}")
    first, second = (count_work(lambda: template.render({"n": 3})) for _ in range(2))

    assert template.render({"n": 3}) == "2"
    assert second < first / 2
    with pytest.raises(ExpressionError, match="too much work"):
        template.render({"n": 3}, work=500)


def test_4_1_paths_of_filters_in_simple_templates_count_as_work():
    path = ".".join("a" * 100)
    text = ("{{ x | groupby('" + path + "') | length }}{{ x | map('default') | length }}") * 100
    with spend_at_most(), pytest.raises(ExpressionError, match="too much work"):
        parse_template(text, simple=True).render({"x": [{}] * 100_000})


def test_names_lists_the_variables_of_the_template():
    assert parse_template("{{u}} {{d.items}} {{my-key|upper}} {{ a + b }} text").names == {"u", "d", "my-key", "a", "b"}
    assert parse_template("plain").names == frozenset()


def test_templates_are_immutable_and_can_be_copied_and_pickled():
    template = parse_template("{{u}}!")

    assert template == parse_template("{{u}}!") != parse_template("{{u}}?")
    assert template != "{{u}}!"
    assert parse_template("{% if u %}", simple=True) != parse_template("{% if u %}")
    assert len({template, parse_template("{{u}}!")}) == 1
    for other in (pickle.loads(pickle.dumps(template)), copy.copy(template), copy.deepcopy([template])[0]):
        assert other == template
        assert other.render(SCOPE) == "1!"
    assert repr(template) == "Template('{{u}}!')"
    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        template.text = "x"
    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        del template.text


def test_a_template_with_blocks_can_be_pickled():
    template = parse_template("{% if u %}yes{% endif %}")

    assert pickle.loads(pickle.dumps(template)).render(SCOPE) == "yes"


def test_a_simple_template_supports_only_paths_with_filters():
    text = "{% if u %}{{u}}{% endif %}"

    assert parse_template(text, simple=True).render(SCOPE) == "{% if u %}1{% endif %}"
    assert pickle.loads(pickle.dumps(parse_template(text, simple=True))).render(SCOPE) == "{% if u %}1{% endif %}"
    for expression in ("{{ u + 1 }}", "{{ name.upper() }}", "{{ 'text' }}", "{{ u if u else u }}"):
        assert parse_template(expression, simple=True).render(SCOPE) == expression
        assert parse_template(expression, simple=True).warnings == ()


def test_4_1_the_size_of_templates_and_outputs_is_limited():
    assert len(render("x" * SIZE_LIMIT)) == SIZE_LIMIT
    with pytest.raises(ExpressionError, match="at most"):
        parse_template("x" * (SIZE_LIMIT + 1))
    big = {"big": "x" * (OUTPUT_LIMIT // 2)}
    assert len(render("{{big}}{{big}}", big)) == OUTPUT_LIMIT
    with pytest.raises(ExpressionError, match="longer than"):
        render("{{big}}{{big}}!", big)


def test_4_1_the_limit_holds_during_rendering():
    """Not only at the end: a tool's answer may repeat a placeholder many times."""
    template = parse_template("{{d}}" * 2_000, simple=True)
    scope = {"d": [list(range(10)) for _ in range(100)]}  # 4 000 characters when rendered: 8 MB in total

    tracemalloc.start()
    with pytest.raises(ExpressionError, match="too much work"):
        template.render(scope, work=100_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_long_rendering_moves_off_the_event_loop():
    threads: list[threading.Thread] = []

    def render_on(template: Template) -> str:
        def call(work: int) -> str:
            threads.append(threading.current_thread())
            return template.render(SCOPE, work=work)

        return asyncio.run(render_off_loop(call))

    assert render_on(parse_template("{{u}}")) == "1"
    assert threads == [threading.main_thread()]
    assert len(render_on(parse_template("{% for i in range(50000) %}{{ u }}{% endfor %}"))) == 50_000
    assert threads[-1] is not threading.main_thread()


@pytest.mark.parametrize("unit", ["{{", "}}", "{{ ", "{{a}}", "{{a|", "{%", "{# ", "{{{", "{{'", "{{a[", "{{ a|join('"])
def test_4_1_hostile_text_is_parsed_in_linear_time(unit: str):
    def parse(size: int) -> None:
        text = unit * (size // len(unit))
        for variant in (text, text + "}}", "{{" + text):
            parse_template(variant).render({})

    check_linear(lambda size: lambda: parse(size), 2_000)
    with spend_at_most():
        parse(200_000)


def test_a_repeated_placeholder_is_parsed_once():
    once, same, different = (
        count_work(lambda text=text: parse_template(text))
        for text in ("{{a|length}}", "{{a|length}}" * 100, "".join(f"{{{{a{n}|length}}}}" for n in range(100)))
    )
    assert same - once < (different - once) / 2


def test_values_that_json_does_not_have_become_strings():
    circle: list[Any] = []
    circle.append(circle)

    assert render("{{x}}", {"x": {"when": complex(1, 2)}}) == '{"when": "(1+2j)"}'
    with pytest.raises(ExpressionError, match="too much work"):
        parse_template("{{x}}").render({"x": circle}, work=100_000)


@pytest.mark.parametrize(
    "text",
    [
        "{{ l.append(9) }} {{ d.update(z=1) }} {{ d.pop('a') }}",
        "{{ l.clear() }}",
        "{% set _ = l.append(1) %}{{ d.clear() }}",
    ],
)
def test_4_1_templates_do_not_change_their_scope(text: str):
    scope = {"l": [1, 2], "d": {"a": [1]}}
    parse_template(text).render(scope)
    render_values(text, scope)
    render_values({"a": [text]}, scope)

    assert scope == {"l": [1, 2], "d": {"a": [1]}}


def test_4_1_repeated_copies_in_simple_templates_are_limited():
    text = ("{{x" + "[:]" * 300 + "[0]}} ") * 200
    with spend_at_most(), pytest.raises(ExpressionError, match="too much work"):
        parse_template(text, simple=True).render({"x": [1] * 100_000})


def test_4_1_indentation_in_simple_templates_is_limited():
    deep: list[Any] = list(range(10_000))
    for _ in range(200):
        deep = [deep]
    with spend_at_most(), pytest.raises(ExpressionError, match="larger than"):
        parse_template("{{ x | tojson(8) }}", simple=True).render({"x": deep})


def test_2_3_characters_and_slices_of_strings_are_read():
    assert render("{{name[0]}} {{name[1:]}} {{name[-1]|upper}} {{name[9]}}") == "A nn N {{name[9]}}"
