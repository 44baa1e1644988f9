"""A runner that shares its work with those of other machines.

Each machine searches for itself, but a tiling that the search asks for is measured by one of them alone; the others
wait for its result. So all see the same results in the same order, ask for the same tilings, and end with the same
best, as one machine alone would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from geglu_tune.devices.protocol import Runner
from geglu_tune.runtime.kernelsource import kernel_hash
from geglu_tune.sweep.shared.claims import SharedStudy
from geglu_tune.sweep.shared.storage import open_storage, reporting
from geglu_tune.sweep.shared.values import (
    CHOICE,
    choice_from,
    choice_text,
    distributions_of,
    key_of,
    measurement_from,
    measurement_text,
    params_of,
)
from geglu_tune.tiling import Choice, Measurement, Tiling, Workload


class SharedRunner:
    """A Runner around one of this machine.

    Args:
        url: see `open_storage`, whose errors this raises.
        seed: of the search; studies of different seeds have nothing in common.
        chunk: tilings to claim at once: as many as the runner works on at the same time.
    """

    def __init__(self, inner: Runner, url: str, *, seed: int, chunk: int) -> None:
        self.device, self.source, self.toolchain = inner.device, inner.source, inner.toolchain
        self._inner = inner
        self._url = url
        self._seed = seed
        self._chunk = chunk
        self._storage = open_storage(url)
        self._studies: dict[Workload, SharedStudy] = {}

    def check(self, workload: Workload) -> None:
        self._inner.check(workload)

    def run(self, workload: Workload, tilings: Sequence[Tiling]) -> Iterator[Measurement]:
        by_key = {key_of(tiling): tiling for tiling in tilings}
        params = {key: params_of(tiling) for key, tiling in by_key.items()}
        with reporting(self._url):
            study = self._study(workload)
            known: dict[str, str] = {}
            try:
                for key in by_key:
                    while key not in known:
                        known = study.results()
                        if key in known:
                            break
                        left = [other for other in by_key if other not in known]
                        claimed = study.claim(left, self._chunk, params, distributions_of(workload.kernel))
                        measurements = self._inner.run(workload, [by_key[mine] for mine in claimed])
                        for mine, measurement in zip(claimed, measurements, strict=True):
                            value = None if measurement.time_us is None else measurement.score
                            study.finish(mine, measurement_text(measurement), value)
                        if not claimed:
                            study.wait()
                    yield measurement_from(known[key])
            finally:
                study.release()

    def choose(self, workload: Workload, contenders: Mapping[Tiling, Measurement], default: Tiling) -> Choice:
        with reporting(self._url):
            study = self._study(workload)
            try:
                while (text := study.results().get(_choice_key(contenders))) is None:
                    for key in study.claim([_choice_key(contenders)], 1):
                        study.finish(key, choice_text(self._inner.choose(workload, contenders, default)), None)
                        break
                    else:
                        study.wait()
            finally:
                study.release()
        return choice_from(text)

    def close(self) -> None:
        """Leave the shared studies; the runner around which this one is stays open."""
        with reporting(self._url):
            for study in self._studies.values():
                study.close()

    def _study(self, workload: Workload) -> SharedStudy:
        if workload not in self._studies:
            name = f"{workload.kernel} {workload.n} {workload.dtype} seed {self._seed}"
            device = self.device
            machine = {
                "source": self.source.value,
                "device": device.soc,
                "vector cores": device.vector_cores,
                "UB bytes": device.ub_bytes,
                "kernel": kernel_hash(workload.kernel),
                **self.toolchain,
            }
            self._studies[workload] = SharedStudy(self._storage, name, machine)
        return self._studies[workload]


def _choice_key(contenders: Mapping[Tiling, Measurement]) -> str:
    """A choice holds for what it was made from: among other tilings it is made anew."""
    made_from = "".join(sorted(map(key_of, contenders)))
    return f"{CHOICE} of {len(contenders)}: {hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
