"""The export file: JSON of a fixed and versioned form, read with mistrust. docs/export.md describes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from geglu_kernels.grid import MAX_GPU_PROGRAMS, MAX_PROGRAMS
from geglu_kernels.launch import largest_block
from geglu_kernels.specs import DTYPE_BYTES, KERNELS, LOOP_ORDERS
from geglu_tune import __version__
from geglu_tune import tiling as values
from geglu_tune.boundary.printable import printable
from geglu_tune.errors import GegluTuneError
from geglu_tune.store.records import Chosen, Contents, Provenance, TrialRecord

FORMAT = "geglu-tune export"
VERSION = 1
MOST_BYTES = 64 * 2**20
"""A larger file is refused unread: all results of a hundred models have a tenth of that."""

_MOST_TEXT = 2000
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}$")]
_Text = Annotated[str, StringConstraints(pattern=r"^\P{C}*$", max_length=_MOST_TEXT)]
"""Without control and format characters, which could speak to the terminal that shows it."""
_Time = Annotated[float, Field(ge=values.SHORTEST_US, le=values.LONGEST_US)]
_Dimension = Annotated[int, Field(ge=1, le=values.MAX_ELEMENTS)]
_Ratio = Annotated[float, Field(ge=0, lt=1e9)]
_Bytes = Annotated[int, Field(ge=0, le=2**40)]
_Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00$")]


_WORKLOAD = TypeAdapter(values.Workload)
_PROVENANCE = TypeAdapter(Provenance)
_MEASUREMENT = TypeAdapter(values.Measurement)
_CHOSEN = TypeAdapter(Chosen)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Device(_Part):
    soc: _Name
    vector_cores: Annotated[int, Field(ge=1, le=2**16)]
    ub_bytes: Annotated[_Bytes, Field(description="0 of a GPU, which has no UB.")]
    gm_gbps: Annotated[float, Field(ge=1e-3, lt=1e9, description="Nominal bandwidth of global memory, 1e9 bytes/s.")]


class Tiling(_Part):
    block_size: Annotated[int, Field(ge=1, le=2**31 - 1)]
    programs: Annotated[int, Field(ge=1, le=2**31 - 1)]
    multibuffer: bool
    form: _Name
    loop_order: Literal[LOOP_ORDERS]  # type: ignore[valid-type]
    num_warps: Annotated[int, Field(ge=1, le=64)] | None


class Trial(_Part):
    tiling: Tiling
    status: values.Status
    reason: _Text
    time_us: _Time | None
    low_us: _Time | None
    high_us: _Time | None
    yardstick_us: Annotated[_Time | None, Field(description="The default's time in the same rounds, if measured.")]
    ub_bytes: _Bytes | None
    program: _Text
    notes: Annotated[tuple[_Text, ...], Field(max_length=100)]
    created_at: _Moment

    @model_validator(mode="after")
    def _ok_has_a_time(self) -> Trial:
        if self.status is values.Status.OK and self.time_us is None:
            raise ValueError("a trial that is ok needs a time")
        return self


class Margin(_Part):
    speedup: _Ratio
    low: _Ratio
    high: _Ratio
    noise: _Ratio


class Best(_Part):
    trial: Annotated[int, Field(ge=0, description="Its place in the study's trials.")]
    default: Annotated[int, Field(ge=0, description="The place of the default's trial.")] | None
    regret: _Ratio | None
    margin: Margin | None
    searched: Annotated[int, Field(ge=1, le=2**31 - 1)] | None
    created_at: _Moment


class Study(_Part):
    kernel: Literal[tuple(KERNELS)]  # type: ignore[valid-type]
    shape: Annotated[tuple[_Dimension, ...], Field(min_length=1, max_length=16)]
    dtype: Literal[tuple(DTYPE_BYTES)]  # type: ignore[valid-type]
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)]
    device: Device
    source: values.Source
    toolchain: Annotated[dict[_Name, _Text], Field(max_length=50)]
    kernel_hash: _Text
    version: Annotated[_Text, Field(description="The geglu-tune that recorded it.")]
    trials: Annotated[list[Trial], Field(min_length=1)]
    best: Best | None

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        if math.prod(self.shape) > values.MAX_ELEMENTS:
            raise ValueError("the shape has more than 2^40 elements")
        if len({trial.tiling for trial in self.trials}) < len(self.trials):
            raise ValueError("a tiling is there twice")
        forms = KERNELS[self.kernel].forms
        for trial in self.trials:
            if trial.tiling.form not in forms:
                raise ValueError(f"{self.kernel} has no form '{trial.tiling.form}', but {', '.join(forms)}")
            if trial.status is values.Status.OK:
                self._check_launch(trial.tiling)
        if self.best is not None:
            self._check_best(self.best)
        return self

    def _check_launch(self, launch: Tiling) -> None:
        is_gpu = self.device.ub_bytes == 0
        if launch.programs > (MAX_GPU_PROGRAMS if is_gpu else MAX_PROGRAMS):
            raise ValueError(f"no {self.device.soc} launches {launch.programs} programs")
        if not is_gpu and launch.block_size > largest_block(self.device.ub_bytes, multibuffer=launch.multibuffer):
            raise ValueError(f"BLOCK_SIZE {launch.block_size} does not fit in {self.device.ub_bytes} bytes of UB")

    def _check_best(self, best: Best) -> None:
        places = range(len(self.trials))
        if best.trial not in places or not (best.default is None or best.default in places):
            raise ValueError("the best or the default is none of the trials")
        if self.trials[best.trial].status is not values.Status.OK:
            raise ValueError("the best is not ok")


class Export(_Part):
    """Studies that one or several databases have, with their trials."""

    format: Literal[FORMAT]  # type: ignore[valid-type]
    version: Literal[VERSION]  # type: ignore[valid-type]
    written_by: Annotated[_Text, Field(description="The geglu-tune that wrote the file.")]
    studies: list[Study]


def to_json(contents: Iterable[Contents]) -> bytes:
    """The export file of some studies, ending with a newline.

    Raises GegluTuneError where one has what nobody could import again: a database can be edited by hand.
    """
    try:
        studies = [Study.model_validate(_study(one)) for one in contents]
    except ValidationError as error:
        raise GegluTuneError(f"this cannot be exported: {_first_fault(error)}") from error
    export = Export(format=FORMAT, version=VERSION, written_by=__version__, studies=studies)
    return export.model_dump_json(indent=1).encode() + b"\n"


def from_json(content: bytes, name: str) -> list[Contents]:
    """What an export file holds, all of it checked.

    Raises GegluTuneError in one line that calls the file by its name, whatever is wrong with it.
    """
    if len(content) > MOST_BYTES:
        raise GegluTuneError(f"{name} is larger than {MOST_BYTES >> 20} MiB, so it is no export of geglu-tune")
    try:
        export = Export.model_validate_json(content)
    except ValidationError as error:
        raise GegluTuneError(f"{name} cannot be imported: {_first_fault(error)}; nothing was imported") from error
    return [_contents(study) for study in export.studies]


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    return Export.model_json_schema()


def _first_fault(error: ValidationError) -> str:
    faults: Sequence[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    newer = next((fault for fault in faults if fault["loc"] == ("version",)), None)
    if newer is not None and not any(fault["loc"] == ("format",) for fault in faults):
        return f"this geglu-tune reads version {VERSION} of the format alone, so that another one has to read it"
    first = faults[0]
    place = ".".join(map(str, first["loc"])) or "the file"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return printable(f"{place}: {first['msg']}{more}")[:300]


def _study(contents: Contents) -> dict[str, Any]:
    """The fields of a Study. What it has flat has the same names in the records."""
    places = {trial.number: place for place, trial in enumerate(contents.trials)}
    best = None
    if contents.best is not None:
        best = asdict(contents.best)
        default = best.pop("default_number")
        best |= {"trial": places[best.pop("number")], "default": None if default is None else places[default]}
    return {
        **asdict(contents.workload),
        **asdict(contents.provenance),
        "seed": contents.seed,
        "trials": [_trial(trial) for trial in contents.trials],
        "best": best,
    }


def _trial(trial: TrialRecord) -> dict[str, Any]:
    return {
        "tiling": trial.tiling.asdict(),
        **asdict(trial.measurement),
        "reason": printable(trial.measurement.reason)[:_MOST_TEXT],
        "notes": tuple(printable(note)[:_MOST_TEXT] for note in trial.measurement.notes),
        "created_at": trial.created_at,
    }


def _contents(study: Study) -> Contents:
    """Each record takes the fields that are its own."""
    fields = study.model_dump()
    best = fields["best"]
    return Contents(
        _WORKLOAD.validate_python(fields),
        _PROVENANCE.validate_python(fields),
        study.seed,
        tuple(_record(number, trial) for number, trial in enumerate(fields["trials"])),
        best and _CHOSEN.validate_python({**best, "number": best["trial"], "default_number": best["default"]}),
    )


def _record(number: int, trial: dict[str, Any]) -> TrialRecord:
    tiling, measurement = values.Tiling(**trial["tiling"]), _MEASUREMENT.validate_python(trial)
    return TrialRecord(number, tiling, measurement, trial["created_at"])
