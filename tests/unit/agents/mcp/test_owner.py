"""The owners of connections."""

import gc
import weakref

import pytest

from statewright.agents.mcp.host import McpHost, Owner
from statewright.errors import ToolError


async def key_of(host: McpHost, key: object, *args: object) -> tuple[object, tuple[object, ...]]:
    return key, args


def test_each_owner_has_its_own_key() -> None:
    owner, other = Owner(), Owner()
    key, args = owner.submit(key_of, 1, 2).result(600)
    assert args == (1, 2)
    assert owner.submit(key_of).result(600)[0] is key
    assert other.submit(key_of).result(600)[0] is not key


def test_a_closed_owner_refuses_calls() -> None:
    owner = Owner()
    owner.close().result(600)
    with pytest.raises(ToolError, match="are closed"):
        owner.submit(key_of)


def test_the_host_does_not_keep_a_reference_to_an_owner() -> None:
    owner = Owner()
    owner.submit(key_of).result(600)
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is None
