"""Templates with blocks: sections 2.3-4 and 2.10."""

import re
from typing import Any

import pytest
from tests.work import spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.templates import parse_template
from statewright.workflow.states.templates.blocks import SOURCE_LIMIT
from statewright.workflow.states.templates.placeholder import PROBLEMS_LIMIT

SCOPE: dict[str, Any] = {
    "u": 1,
    "n": 0,
    "labels": ["bug", "help"],
    "my-key": "dashed",
    "d": {"items": 5, "list": [1, 2]},
    "people": [{"name": "Bo", "age": 3}, {"name": "al", "age": 2}],
    "evil": "{{u}}{% set u = 2 %}",
    "text": "x < y",
    "range": "shadow",
}

DOUBLED = (
    "{% set ns = namespace(l=['a'], m=['a']) %}"
    "{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}"
)
REPORT = """\
{% set groups = {} %}
{%- for item in items %}
{%- set _ = groups.setdefault(item.branch, []).append(item) %}
{%- endfor %}
{%- set total = namespace(count=0) %}
{%- for branch, found in groups.items() | sort(attribute="0") %}
## {{ branch }} ({{ found | length }})
{%- for item in found | sort(attribute="name", reverse=true) %}
{%- set total.count = total.count + 1 %}
{{ loop.index }}. {{ item.name | safe }}{% if item.tags %} [{{ item.tags | join(", ") }}]{% endif %}
{%- endfor %}
{%- else %}
nothing
{%- endfor %}
Total: {{ total.count }}
{# the end #}"""


def render(text: str, scope: dict[str, Any] | None = None) -> str:
    return parse_template(text).render(SCOPE if scope is None else scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if u %}yes{% else %}no{% endif %}", "yes"),
        ("{% if n %}a{% elif u == 1 and labels|length > 1 %}b{% else %}c{% endif %}", "b"),
        ("{% for l in labels %}{{ loop.index }}:{{l}}{% if not loop.last %}, {% endif %}{% endfor %}", "1:bug, 2:help"),
        ("{%- for l in labels -%} {{ l }} {%- endfor -%}", "bughelp"),
        ("{% for x in nope %}{{x}}{% else %}none{% endfor %}", "none"),
        ("{% for k, v in d.items() %}{{k}}={{v}};{% endfor %}", "items=5;list=[1, 2];"),
        ("{% for k in d %}{{k}} {% endfor %}", "items list "),
        ("{% for i in range(3) %}{{i}}{% endfor %} {{ range }}", "012 shadow"),
        ("{% set x = u + 1 %}{{x}}", "2"),
        ("{% set x %}a{{u}}{% endset %}{{x|upper}}", "A1"),
        ("{% if u %}{{ d.items }} {{ d['list'][1] }} {{ d.list[:1] }}{% endif %}", "5 2 [1]"),
        ("{% if u %}{{ d }} {{ true }} {{ none }}{% endif %}\n", '{"items": 5, "list": [1, 2]} true null\n'),
        ("{% if 'bug' in labels and 'x' not in labels %}in{% endif %}", "in"),
        ("{% if nope is defined or u is not none %}{{ nope|default('dd') }}{% endif %}", "dd"),
        ("{% if u %}{{ 'a' if n else 'b' }}{{ 'x' ~ u ~ d.items }}{{ labels|first }}{% endif %}", "bx15bug"),
        (
            "{% if u %}{{ people|sort(attribute='name')|tojson }}{% endif %}",
            '[{"name": "al", "age": 2}, {"name": "Bo", "age": 3}]',
        ),
        (
            "{% if u %}{{ text.upper() }} {{ ', '.join(labels) }} {{ labels.count('bug') }}{% endif %}",
            "X < Y bug, help 1",
        ),
        ("{# note #}{{u}}", "1"),
        ("{% set ns = namespace(c=0) %}{% for l in labels %}{% set ns.c = ns.c + 2 %}{% endfor %}{{ ns.c }}", "4"),
        ("{% set _ = d.update({'z': 1}) %}{{ d.z }}{% set _ = labels.append('new') %}{{ labels|length }}", "13"),
        ("{% set _ = labels.extend(labels) %}{{ labels|length }}{{ labels.pop() }}{{ d.pop('items') }}", "4help5"),
        ("{% if text.contains('<') %}{{ text }}{% endif %}", "x < y"),
        ("{% if u %}{{ dict(a=1).a }} {{ -u }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 * 3 }}{% endif %}", "1 -1 3 3 6"),
    ],
)
def test_2_3_blocks_are_rendered(text: str, expected: str):
    assert render(text) == expected


def test_2_10_a_report_with_assignments_changed_maps_and_sorting_is_rendered():
    items = [
        {"branch": "main", "name": "<b>", "tags": ["x", "y"]},
        {"branch": "dev", "name": "a", "tags": []},
        {"branch": "main", "name": "c"},
    ]

    assert render(REPORT, {"items": items}) == ("\n## dev (1)\n1. a\n## main (2)\n1. c\n2. <b> [x, y]\nTotal: 3\n")
    assert render(REPORT, {"items": []}) == "\nnothing\nTotal: 0\n"


def test_2_3_placeholders_without_a_value_stay_unchanged():
    text = "{% if u %}{{u}} {{  nope }} {{ a.b.c }} {{ nope|upper }} {{ d.nope }}{% endif %}"

    assert render(text) == "1 {{  nope }} {{ a.b.c }} {{ nope|upper }} {{ d.nope }}"


def test_2_3_keys_with_dashes_are_read():
    assert render("{% if u %}{{ my-key }} {{ no-key }} {{ u - 1 }}{% endif %}") == "dashed {{ no-key }} 0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if u %}{{ labels|map('upper')|join }}{% endif %}", "BUGHELP"),
        ("{% if u %}{{ '%s-%04d'|format(text, u) }}{% endif %}", "x < y-0001"),
        ("{% filter upper %}a{{ text }}{% endfilter %}", "AX < Y"),
        ("{% with a = 1, b = u %}{{ a + b }}{% endwith %}{{ a }}", "2{{ a }}"),
        ("{% set x | upper | trim %} a{{u}} {% endset %}[{{x}}]", "[A1]"),
        ("{% for x in labels %}{{ loop.cycle('a', 'b') }}{% endfor %}", "ab"),
        ("{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}", "true false true "),
        (
            "{% for x in [1, 2, 3] if x != 2 %}{{ loop.length }}{{ x }}{{ loop.previtem }}{% endfor %}",
            "21{{ loop.previtem }}231",
        ),
        (
            "{% for p in people|groupby('age') %}{{ p.grouper }}={{ p.list|map(attribute='name')|join }};{% endfor %}",
            "2=al;3=Bo;",
        ),
        ("{% for k, v in people|groupby('age') %}{{ k }}={{ v|length }};{% endfor %}", "2=1;3=1;"),
        ("{% for x in labels %}{% set u = x %}{{ u }}{% endfor %}{{ u }}", "bughelp1"),
        ("{% if nope > 2 or nope == 1 or nope in labels %}a{% else %}b{% endif %}", "b"),
        ("{% if not nope and nope != 1 and nope is undefined %}a{% endif %}", "a"),
        ("{% raw %}{{ u }}{% endraw %}{{ u }}", "{{ u }}1"),
        ("{% filter upper %}{% set u = 'x' %}{{ u }}{% endfilter %}{{ u }}", "X1"),
        ("{% set y %}{% set u = 'x' %}{{ u }}{% endset %}{{ y }}{{ u }}", "x1"),
        ("{% filter upper %}{% set z = 'x' %}{% endfilter %}{{ z }}", "{{ z }}"),
        (
            "{% for a in [1] %}{{ loop.depth }}{{ loop.depth0 }}"
            "{% for b in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}",
            "1010",
        ),
        ("{% set x = 'a' if n %}{{ x }}|{{ x|default('d') }}|{{ x is defined }}|{{ 'b' if n }}", "|d|false|"),
        ("{{ people|map(attribute='nope')|select('defined')|list }}{% if u %}{% endif %}", "[]"),
        ("{% if u is divisibleby(num=1) and u is sameas(other=1) %}yes{% endif %}", "yes"),
        (
            "{% if u %}{{ str(true) }}{{ str([none]) }}{{ '%s'|format(none) }}{{ true ~ none }}{% endif %}",
            "true[null]nulltruenull",
        ),
        (
            "{% if u %}{{ 'a,b,c'.split(sep=',', maxsplit=1) }}{{ 'a\n'.splitlines(keepends=true) }}{% endif %}",
            '["a", "b,c"]["a\\n"]',
        ),
        ("{% for x in labels %}{{ x }}{% if not loop.last %},{% endif %}\n{% endfor -%}\n ", "bug,\nhelp\n"),
        (
            "{% set _ = labels.sort(reverse=true) %}{{ labels }}{% set _ = labels.remove('bug') %}{{ labels }}",
            '["help", "bug"]["help"]',
        ),
    ],
)
def test_2_3_other_features_of_jinja_are_supported(text: str, expected: str):
    assert render(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{% if %}{{u}}",
        "{% if u %}{{u}}",
        "{% for x in labels %}{{u}}{% endif %}",
        "{% if u %}{{ u ** 9 }}{% endif %}",
        "{% if u %}{{ u|unknown }}{% endif %}",
        "{% if u is unknown %}{{u}}{% endif %}",
        "{% if u %}{{ u + text }}{% endif %}",
        "{% if u %}{{ 1 / n }}{% endif %}",
        "{% set x = nope + 1 %}",
        "{% set x.y = 1 %}",
        "{% set x, y = [1] %}",
        "{% if nope.upper() %}{% endif %}",
        "{% for x, y in labels %}{% endfor %}",
        "{% if u %}{{ '%999999999d'|format(u) }}{% endif %}",
        "{% for x in labels %}{{ [loop, namespace()] }}{% endfor %}",
        "{% for x in labels %}{{ loop }}{% endfor %}",
        "{% if u %}{{ namespace() }}{% endif %}",
        "{% for x in u %}{{x}}{% endfor %}",
        "{% if u %}{{ str(namespace()) }}{% endif %}",
        "{% for x in labels %}{{ str([loop]) }}{% endfor %}",
        "{% for x in labels %}{{ loop|string }}{% endfor %}",
        "{% if u %}{{ {'a': namespace()}|tojson }}{% endif %}",
        "{% if u %}{{ 0x" + "f" * 300 + " }}{% endif %}",
        "{% if u %}{{ 1e999 }}{% endif %}",
        "{% if u %}{{ u() }}{% endif %}",
        "{% if u %}{{ text.format(u) }}{% endif %}",
        "{% if u %}{{ '%s' % u }}{% endif %}",
        "{% if u %}{{ u|attr('real') }}{% endif %}",
        "{% if u %}{{ dict(*labels) }}{% endif %}",
        "{% if u %}{{ u|_shown('x') }}{% endif %}",
        "{% if u %}{% include 'x' %}{% endif %}",
        "{% if u %}{% import 'x' as x %}{% endif %}",
        "{% if u %}{% macro f() %}x{% endmacro %}{{ f() }}{% endif %}",
        "{% if u %}{% block x %}{% endblock %}{% endif %}",
        "{% extends 'x' %}{% if u %}{% endif %}",
        "{% if u %}{% call u() %}{% endcall %}{% endif %}",
        "{% for x in labels recursive %}{{ loop(x) }}{% endfor %}",
        "{% if u %}{{ range(10000000) }}{% endif %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ns.s}}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ns.s}}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set _ = ns.s.extend(ns.s) %}{% endfor %}{{u}}",
        "{% if u %}{{ 'a' * 10000000000 }}{% endif %}",
        "{% if u %}{{ ['a'] * 10000000000 }}{% endif %}",
        "{% if " + "(" * 5000 + "u" + ")" * 5000 + " %}{% endif %}",
    ],
)
def test_2_3_a_rendering_error_names_the_line(text: str):
    template = parse_template("first line\n" + text)
    with spend_at_most(), pytest.raises(ExpressionError, match=r"^Line [12] of the template cannot be rendered: .+\.$"):
        template.render(SCOPE)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{% if u %}\n{{u}}", 2, "Unexpected end of template"),
        ("a\n{% if u %}{{ u|unknown }}{% endif %}", 2, "The filter 'unknown' is not supported"),
        ("a\n\n{% if u is unknown %}{{u}}{% endif %}", 3, "The test 'unknown' is not supported"),
        ("{% if u %}\n{{ u.unknown() }}{% endif %}", 2, r".unknown\(\) is not supported"),
        ("{% include 'x' %}", 1, "{% include %} is not supported"),
        ("{% macro f() %}x{% endmacro %}", 1, "{% macro %} is not supported"),
        ("{% if u %}{% endif %}\n{% print u %}{{ u }}", 2, "{% print %} is not supported"),
        ("{% if " + "(" * 5000 + "u" + ")" * 5000 + " %}{% endif %}", 1, "The template is nested too deeply"),
        ("{% if u %}" * 60 + "{% endif %}" * 60, 1, "A nesting of more than 50 blocks"),
        ("{% if u %}{{u}}{% endif %}" + "x" * SOURCE_LIMIT, 1, "The template has 100026 characters. With blocks"),
    ],
)
def test_2_3_blocks_that_cannot_be_compiled_are_errors(text: str, line: int, message: str):
    problem = parse_template(text).errors[0]

    assert problem.line == line
    assert re.match(message, problem.message)


def test_an_error_without_advice_ends_with_one_full_stop():
    with pytest.raises(ExpressionError, match=r"cannot be rendered: Unexpected end of template.*'if'\.$"):
        parse_template("{% if u %}{{ u }}").render({})


def test_a_print_tag_is_rejected_with_advice():
    (problem,) = parse_template("{% if u %}{{ u }}\n{%- print u %}{% endif %}").errors
    assert problem == (2, "{% print %} is not supported in workflow templates.", "Write {{ ... }} instead.")


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in big %}{% for j in big %}{% if j in big %}{% endif %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{% if big == other %}{% endif %}{% set x = big[1:] %}{% endfor %}",
        "{% for i in range(9999) %}{% set x = big|sort|length %}{% endfor %}",
        "{% for i in range(9999) %}{% set x = big.count(1) %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'a' * 100 }}{% endfor %}",
        DOUBLED + "{{ ns.l }}",
        DOUBLED + "{% if ns.l == ns.m %}{% endif %}",
        DOUBLED + "{{ [ns.l, ns.m]|sort }}",
        DOUBLED + "{{ [ns.l].count(ns.m) }}",
        "{% for i in range(20) %}{{ huge }}{% endfor %}",
    ],
)
def test_4_1_loops_and_outputs_are_limited(text: str):
    scope = {"big": list(range(50_000)), "other": list(range(50_000)), "huge": "a" * 600_000}

    with spend_at_most(), pytest.raises(ExpressionError, match=r"too much work|longer than|larger than"):
        parse_template(text).render(scope, work=1_000_000)


def test_4_1_appending_to_a_long_list_costs_constant_work() -> None:
    text = "{% set l = [] %}{% for i in range(20000) %}{% set _ = l.append(i) %}{% endfor %}{{ l|length }}"

    assert parse_template(text).render({}, work=4_000_000) == "20000"


def test_2_3_only_the_first_errors_are_described() -> None:
    problems = parse_template("{% if u %}" + "".join(f"{{{{ u|nope{n} }}}}" for n in range(500)) + "{% endif %}").errors

    assert len(problems) == PROBLEMS_LIMIT
    assert problems[0].suggestion


def test_4_1_templates_do_not_change_the_context():
    scope = {"d": {"l": [1]}, "l": [{"k": 1}]}
    text = "{% set _ = d.l.append(2) %}{% set _ = l[0].update({'k': 2}) %}{% set _ = d.pop('l') %}{{ l }}{{ d }}"

    assert render(text, scope) == '[{"k": 2}]{}'
    assert scope == {"d": {"l": [1]}, "l": [{"k": 1}]}


def test_2_3_values_are_not_rendered_as_templates():
    assert render("{% if u %}{{ evil }}{% for x in [evil] %}{{ x }}{% endfor %}{% endif %}") == SCOPE["evil"] * 2


@pytest.mark.parametrize(
    "inner",
    [
        "range",
        "namespace",
        "dict",
        "cycler",
        "lipsum",
        "d.items.real",
        "labels.append",
        "text.upper",
        "u.__class__",
    ],
)
def test_4_1_only_values_are_rendered(inner: str):
    text = "{{ " + inner + " }}"

    assert (
        render("{% for x in [1] %}" + text + "{% endfor %}", SCOPE | {"range": {}} if inner != "range" else {}) == text
    )


def test_a_loop_exposes_only_its_public_attributes():
    text = "{% for x in labels %}{{ loop.length }}{{ loop._iterator }}{{ loop.__init__ }}{% endfor %}"

    assert render(text) == "2{{ loop._iterator }}{{ loop.__init__ }}" * 2


def test_names_lists_the_variables_of_the_template():
    template = parse_template(
        "{% for x in items %}{{ x.a }}{{ my-key }}{% set y = z %}{{ range(3) }}{{ y }}{% endfor %}"
    )

    assert template.names == {"items", "my-key", "my", "key", "z"}


def test_2_3_a_sign_next_to_the_braces_controls_whitespace():
    scope = {"x.y": 5, "x": {"y": 5}, "a-b": 1}

    assert render("{% if 1 %}{% endif %}{{ -x.y }} {{- x.y }}{{+ x.y -}} !", scope) == "-555!"
    assert render("{% if 1 %}{% endif %}{{ a-b }}", scope) == "1"


def test_renderings_are_independent_of_each_other():
    template = parse_template("{% for i in range(99999) %}{% endfor %}done {{ u }}")

    assert [template.render({"u": value}) for value in range(3)] == ["done 0", "done 1", "done 2"]
