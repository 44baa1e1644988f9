"""An NPU that is timed: a virtual card that claims to be one."""

from __future__ import annotations

from collections.abc import Mapping

from geglu_tune.devices.calibration.card import VirtualCard
from geglu_tune.devices.profiles import Profile


class FakeNpuCard(VirtualCard):
    """What open_npu gives, of a card with that profile."""

    def __init__(self, profile: Profile, noise: float = 0.0) -> None:
        super().__init__(profile, noise)
        self.versions: Mapping[str, str] = {"torch_npu": "2.6.0", "driver": "fake 1"}
        self.closed = False

    def close(self) -> None:
        self.closed = True
