"""Run them with `python -m unittest`."""

from unittest import TestCase

from bills import receipt, split


class TestBills(TestCase):
    def test_a_bill_that_divides_evenly(self) -> None:
        assert split(900, 3) == [300, 300, 300]

    def test_the_shares_add_up_to_the_bill(self) -> None:
        shares = split(1000, 3)
        assert sum(shares) == 1000, f"{shares} make {sum(shares)}"

    def test_nobody_pays_more_than_one_cent_more(self) -> None:
        shares = split(1001, 3)
        assert max(shares) - min(shares) <= 1, f"{shares} differ by more than one cent"

    def test_the_receipt_names_everybody(self) -> None:
        assert receipt(1000, ["Ada", "Ben", "Cleo"]) == "Ada: 3.34\nBen: 3.33\nCleo: 3.33"

    def test_a_bill_for_nobody_is_refused(self) -> None:
        with self.assertRaises(ValueError):  # noqa: PT027  # the project needs no pytest
            split(1000, 0)
