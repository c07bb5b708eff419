"""The last output of a program."""

import asyncio

from statewright.agents.mcp.texts import StderrTail


def heard(*written: str) -> str:
    words = StderrTail()
    with words.pipe() as file:
        for text in written:
            file.write(text)
            file.flush()
    return asyncio.run(words.read(patience=5))


def test_nothing_was_said() -> None:
    assert heard() == ""
    assert asyncio.run(StderrTail().read(patience=5)) == ""


def test_the_last_lines_are_kept() -> None:
    assert heard(*(f"line {number}\n" for number in range(20))).splitlines() == [f"line {n}" for n in range(12, 20)]


def test_a_program_may_say_more_than_is_kept_and_no_line_is_shown_in_half() -> None:
    assert heard("x" * 1_000_000 + "\n", "y" * 3000 + "\n", "end\n") == "y" * 3000 + "\nend"
    assert heard("x" * 5000) == ""


def test_one_that_still_talks_is_not_waited_for() -> None:
    words = StderrTail()
    with words.pipe() as file:
        file.write("so far")
        file.flush()

        async def patiently() -> str:
            while not (said := await words.read(patience=0)):
                await asyncio.sleep(0.01)
            return said

        assert asyncio.run(patiently()) == "so far"
