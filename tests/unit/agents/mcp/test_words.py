"""The last output of a program."""

import asyncio

from statewright.agents.mcp.texts import StderrTail


def tail_of(*written: str) -> str:
    tail = StderrTail()
    with tail.pipe() as file:
        for text in written:
            file.write(text)
            file.flush()
    return asyncio.run(tail.read(timeout=5))


def test_the_tail_of_no_output_is_empty() -> None:
    assert tail_of() == ""
    assert asyncio.run(StderrTail().read(timeout=5)) == ""


def test_the_last_lines_are_kept() -> None:
    assert tail_of(*(f"line {number}\n" for number in range(20))).splitlines() == [f"line {n}" for n in range(12, 20)]


def test_long_output_is_cut_at_the_beginning_of_a_line() -> None:
    assert tail_of("x" * 1_000_000 + "\n", "y" * 3000 + "\n", "end\n") == "y" * 3000 + "\nend"
    assert tail_of("x" * 5000) == ""


def test_reading_does_not_wait_for_a_running_program() -> None:
    tail = StderrTail()
    with tail.pipe() as file:
        file.write("so far")
        file.flush()

        async def read_until_text() -> str:
            while not (text := await tail.read(timeout=0)):
                await asyncio.sleep(0.01)
            return text

        assert asyncio.run(read_until_text()) == "so far"
