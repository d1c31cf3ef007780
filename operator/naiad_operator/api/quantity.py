"""Converts Kubernetes quantities to the API server's canonical form, so that wanted and stored values can be compared."""

import decimal

_BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
_DECIMAL = {
    "m": decimal.Decimal("0.001"),
    "": decimal.Decimal(1),
    "k": decimal.Decimal(10**3),
    "M": decimal.Decimal(10**6),
    "G": decimal.Decimal(10**9),
    "T": decimal.Decimal(10**12),
    "P": decimal.Decimal(10**15),
    "E": decimal.Decimal(10**18),
}
_MILLI = 1000


def amount(text: str) -> decimal.Decimal:
    """The number that a quantity stands for; the schema has checked its form."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(number) :]
    if unit in _BINARY:
        return decimal.Decimal(number) * _BINARY[unit]
    return decimal.Decimal(number) * _DECIMAL[unit] if unit in _DECIMAL else decimal.Decimal(text)


def canonical(amount: int | str) -> str:
    """The quantity with the largest unit that leaves it an integer; a text that is not a quantity is returned unchanged.

    Binary amounts stay binary and decimal ones decimal: 1024Mi is 1Gi, 1000m is 1, 0.5 is 500m.
    """
    text = str(amount)
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(number) :]
    try:
        value = decimal.Decimal(number)
    except decimal.InvalidOperation:
        return text
    if unit in _BINARY:
        total = value * _BINARY[unit]
        if total == total.to_integral_value():
            return _binary(int(total))
        return _decimal(total)
    return _decimal(value * _DECIMAL[unit]) if unit in _DECIMAL else text


def _binary(total: int) -> str:
    if total == 0:
        return "0"
    for unit, size in reversed(_BINARY.items()):
        if total % size == 0:
            return f"{total // size}{unit}"
    return str(total)


def _decimal(total: decimal.Decimal) -> str:
    if total == 0:
        return "0"
    milli = int((total * _MILLI).to_integral_value(rounding=decimal.ROUND_CEILING))
    if milli % _MILLI:
        return f"{milli}m"
    whole = milli // _MILLI
    for unit, size in reversed(_DECIMAL.items()):
        if size >= 1 and whole % int(size) == 0:
            return f"{whole // int(size)}{unit}"
    return str(whole)
