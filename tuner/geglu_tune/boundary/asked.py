"""What a person asks for, in words: kernels, dtypes, shapes, models, devices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypedDict

from geglu_kernels.specs import DTYPE_BYTES, FAMILIES, KERNELS
from geglu_tune.boundary import models
from geglu_tune.errors import UsageError
from geglu_tune.tiling import MAX_ELEMENTS

SHAPE = r"[0-9]{1,18}(x[0-9]{1,18})*"
SHAPE_WITH_ELEMENTS = r"(?!0+(x|$))[0-9]{1,18}(x(?!0+(x|$))[0-9]{1,18})*"
SOC = r"(?!(auto|npu|cuda)$)[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}"


class Filters(TypedDict, total=False):
    """Only these rows of a store."""

    kernel: str
    dtype: str
    shape: tuple[int, ...]
    soc: str


class TooLargeError(UsageError):
    """A shape that fits on no device."""


def parse_kernel(text: str) -> str:
    return _one_of("kernel", text, KERNELS)


def parse_family(text: str) -> str:
    """A gated linear unit, of which the kernels are the passes."""
    return _one_of("kernel", text, FAMILIES)


def parse_dtype(text: str) -> str:
    return _one_of("dtype", text, DTYPE_BYTES)


def parse_model(text: str) -> list[tuple[int, ...]]:
    """The shapes of a model."""
    return models.shapes(models.INTERMEDIATE[_one_of("model", text, models.INTERMEDIATE)])


def parse_shape(text: str) -> tuple[int, ...]:
    """8192x11008 -> (8192, 11008)."""
    if not re.fullmatch(SHAPE, text):
        raise UsageError(f"cannot read shape '{text}': write whole numbers joined by x, such as 8192x11008")
    shape = tuple(map(int, text.split("x")))
    elements = 1
    for size in shape:
        elements *= size
    if not elements:
        raise UsageError(f"shape '{text}' has no elements, so there is nothing to tune: every size must be 1 or more")
    if elements > MAX_ELEMENTS:
        raise TooLargeError(f"shape '{text}' has more than 2^40 elements, which fit on no device: check the sizes")
    return shape


def parse_soc(text: str) -> str:
    """The SoC of a device's name: virtual:Ascend910B4 and Ascend910B4 are one; indices are of this machine alone."""
    soc = text.strip().removeprefix("virtual:")
    if not re.fullmatch(SOC, soc):
        raise UsageError(f"'{text}' is not the name of a device: give its SoC, such as Ascend910B4")
    return soc


def parse_filters(kernel: str | None, dtype: str | None, shape: str | None, device: str | None) -> Filters:
    """What of it is given, as the store's queries take it."""
    filters: Filters = {}
    if kernel is not None:
        filters["kernel"] = parse_kernel(kernel)
    if dtype is not None:
        filters["dtype"] = parse_dtype(dtype)
    if shape is not None:
        filters["shape"] = parse_shape(shape)
    if device is not None:
        filters["soc"] = parse_soc(device)
    return filters


def _one_of(what: str, text: str, known: Iterable[str]) -> str:
    if text not in known:
        raise UsageError(f"unknown {what} '{text}': choose from {', '.join(known)}")
    return text
