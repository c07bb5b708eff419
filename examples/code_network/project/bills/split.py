"""Splitting of bills. All amounts are in cents."""


def split(total: int, people: int) -> list[int]:
    """Return the share of each person."""
    if people < 1:
        raise ValueError("Somebody has to pay the bill.")
    share = total // people
    return [share] * people
