# SPDX-License-Identifier: GPL-2.0-only
"""pdfium's functions without ctypes' conversions: handles and addresses are plain integers.

pypdfium2 checks every argument, and makes an object of every handle. For what is asked once a document that is right;
for what is asked for every page, line or bookmark it takes longer than the answer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

ADDRESS = ctypes.c_void_p
"""A handle, or where an answer is written to. As a result it is an int, or None for a null pointer."""
INT = ctypes.c_int
LONG = ctypes.c_ulong
DOUBLE = ctypes.c_double


@cache
def function(name: str, result: type[Any] | None, *arguments: type[Any], quick: bool = False) -> Callable[..., Any]:
    """The C function of that name.

    Args:
        name: as pdfium calls it.
        result: its C type, None for void.
        arguments: their C types; nothing checks that they are the function's. None for a function of handles, addresses
            and ints that is given each address as a `Reference`: then there is nothing to convert at all.
        quick: whether it answers within a microsecond, so that letting other threads run meanwhile would cost more.
    """
    import pypdfium2.raw as pdfium

    make = ctypes.PYFUNCTYPE if quick else ctypes.CFUNCTYPE
    address = ctypes.cast(getattr(pdfium, name), ctypes.c_void_p).value or 0
    return make(result, *arguments)(address)


Reference = Any
"""An address that goes into a call as it is."""


def reference(address: int) -> Reference:
    """The address as an argument. What lies there has to outlive it."""
    return ctypes.byref(ctypes.c_char.from_address(address))


def references(address: int, count: int, step: int) -> list[Reference]:
    """References to the address and to those that follow it every `step` bytes."""
    start = ctypes.c_char.from_address(address)
    return [ctypes.byref(start, offset) for offset in range(0, count * step, step)]


def address_of(handle: Any) -> int | None:
    """A handle of pypdfium2 as a plain integer; None when it is a null pointer."""
    return ctypes.cast(handle, ctypes.c_void_p).value
