"""Kubernetes quantities as whole thousandths, the unit in which the autoscaler calculates."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

from scaler.simulation.errors import SimulationError

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

_TEXT = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,4})|([numkMGTPE]|[KMGTPE]i))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityInvalid(SimulationError):
    """A text that is no quantity, or a number that is none: NaN or an infinity."""


def milli(quantity: str | float | Decimal | Fraction) -> int:
    """Return `quantity` in thousandths; any rest below one thousandth is rounded away from zero.

    Numbers are taken exactly as they are stored. What no longer fits 64 bits is not cut here: the
    arithmetic on metrics wraps it around, as the controller's does.
    """
    exact = _parsed(quantity) if isinstance(quantity, str) else _finite(quantity)
    thousandths = exact * 1000
    return math.ceil(thousandths) if thousandths > 0 else math.floor(thousandths)


def approximate(quantity: str) -> float:
    """Return `quantity` as the double that the API machinery makes of it, for a tolerance.

    It multiplies a whole number by a power of ten, which may differ from the nearest double in the
    last bit; a tolerance's border can depend on that.
    """
    exact = _parsed(quantity)
    if abs(exact) > INT64_MAX:
        raise QuantityInvalid(f"{quantity!r} is beyond what a quantity can be")
    for power in (0, 3, 6):
        whole = exact * 10**power
        if whole.denominator == 1:
            return int(whole) * 10.0**-power
    return math.ceil(exact * 10**9) * 1e-9


def wrapped(number: int, bits: int) -> int:
    """Return what is left of a whole number in so many bits with a sign."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _finite(number: float | Decimal | Fraction) -> Fraction:
    try:
        return Fraction(number)
    except (ValueError, OverflowError) as error:
        message = f"a quantity must be a finite number, not {number}: leave the metric out instead"
        raise QuantityInvalid(message) from error


def _parsed(text: str) -> Fraction:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise QuantityInvalid(f"{text!r} is no quantity: write a number such as 3, 0.5, 500m or 2k")
    sign, digits, exponent, suffix = match.groups()
    number = Fraction(digits) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    return number * Fraction(10) ** (int(exponent) if exponent else _DECIMAL.get(suffix or "", 0))
