"""What the environment of blocks knows, and what it answers to whoever asks for more."""

from jinja2 import Undefined
from jinja2.utils import Namespace

from statewright.workflow.states.templates.filters import FILTERS
from statewright.workflow.states.templates.sandbox import ENVIRONMENT, FUNCTIONS


def test_4_1_it_knows_only_what_is_in_its_tables():
    own = {name for name in ENVIRONMENT.filters if not name.startswith("_")}

    assert own == {*FILTERS, "default", "first", "last"}
    assert ENVIRONMENT.globals == {}
    assert set(FUNCTIONS) == {"range", "namespace", "dict"}
    assert ENVIRONMENT.loader is None
    assert not ENVIRONMENT.extensions


def test_2_3_a_dot_reads_a_key():
    assert ENVIRONMENT.getattr({"items": 1}, "items") == 1
    assert ENVIRONMENT.getattr(Namespace(a=1), "a") == 1
    assert ENVIRONMENT.getitem([1, 2], -1) == 2
    assert ENVIRONMENT.getitem("ab", 0) == "a"


def test_4_1_no_attribute_is_read():
    for value in ({}, [], "text", 1, None, Namespace(a=1), object(), test_2_3_a_dot_reads_a_key, ENVIRONMENT):
        for name in ("__class__", "__globals__", "append", "upper", "real", "filters", "_Namespace__attrs"):
            assert isinstance(ENVIRONMENT.getattr(value, name), Undefined)
            assert isinstance(ENVIRONMENT.getitem(value, name), Undefined)
