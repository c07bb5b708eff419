"""Splits a bill. All amounts are in cents."""


def split(total: int, people: int) -> list[int]:
    """What each of so many people pays."""
    if people < 1:
        raise ValueError("Somebody has to pay the bill.")
    share = total // people
    return [share] * people
