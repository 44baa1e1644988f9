"""What can be asked under /v1, and what is answered: by these FastAPI checks questions and describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from geglu_kernels.specs import DTYPE_BYTES, KERNELS
from geglu_tune.boundary.asked import (
    SHAPE_WITH_ELEMENTS,
    SOC,
    Filters,
    parse_dtype,
    parse_filters,
    parse_kernel,
    parse_shape,
    parse_soc,
)
from geglu_tune.tiling import Source

PAGE = 100
LONGEST_PAGE = 1000


def _same(parse: Any) -> AfterValidator:
    """Refuses what parse does, in its words: a UsageError is no ValueError, so that pydantic lets it through."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Kernel = Annotated[str, _same(parse_kernel), WithJsonSchema({"type": "string", "enum": list(KERNELS)})]
Dtype = Annotated[str, _same(parse_dtype), WithJsonSchema({"type": "string", "enum": list(DTYPE_BYTES)})]
Shape = Annotated[
    str,
    _same(parse_shape),
    WithJsonSchema({"type": "string", "pattern": f"^{SHAPE_WITH_ELEMENTS}$", "example": "8192x11008"}),
]
Device = Annotated[
    str, _same(parse_soc), WithJsonSchema({"type": "string", "pattern": f"^{SOC}$", "example": "Ascend910B4"})
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TilingAsked(_Asked):
    kernel: Kernel
    shape: Shape
    dtype: Dtype = "bf16"
    device: Device = "Ascend910B4"


class TrialsAsked(_Asked):
    kernel: Kernel | None = None
    shape: Shape | None = None
    dtype: Dtype | None = None
    device: Device | None = None
    limit: Annotated[int, Field(ge=1, le=LONGEST_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0

    @property
    def filters(self) -> Filters:
        return parse_filters(self.kernel, self.dtype, self.shape, self.device)


class TilingsAsked(TrialsAsked):
    source: Source | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(_Answer):
    """What `geglu-tune lookup --json` prints."""

    kernel: str
    shape: str
    n: int
    dtype: str
    device: str
    block_size: int
    programs: int
    multibuffer: bool
    form: str
    loop_order: str
    origin: Literal["exact", "nearest", "default"]
    source: Source | None
    time_us: float | None
    tuned_n: int | None
    distance: float | None
    reason: str
    row: dict[str, Any] | None


class Page(_Answer):
    total: int
    items: list[dict[str, Any]]
    next: Annotated[int | None, Field(description="The offset of the next page, if there is one.")]


class Health(_Answer):
    status: str
    version: str
    writable: bool


class Error(_Answer):
    error: str
