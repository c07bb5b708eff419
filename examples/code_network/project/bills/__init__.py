"""Bills that several people share."""

from bills.receipt import receipt
from bills.split import split

__all__ = ["receipt", "split"]
