"""What a lookup needs to know of each SoC, without the time that reading the profiles takes (standard library alone).

Taken from devices/profiles/*.toml, which have the sources; a test holds this table to them.
"""

from __future__ import annotations


class Soc:
    """One SoC: its name, its size, and the numbers that decide how the time of a flat kernel grows with n."""

    def __init__(
        self,
        name: str,
        vector_cores: int,
        ub_bytes: int,
        gm_nominal_gbps: float,
        read_efficiency: float,
        l2_read_gbps: float,
        l2_bytes: int,
        launch_us: float,
        launch_us_per_program: float,
    ) -> None:
        self.name = name
        self.vector_cores = vector_cores
        self.ub_bytes = ub_bytes
        self.gm_nominal_gbps = gm_nominal_gbps
        self.read_efficiency = read_efficiency
        self.l2_read_gbps = l2_read_gbps
        self.l2_bytes = l2_bytes
        self.launch_us = launch_us
        self.launch_us_per_program = launch_us_per_program


_ALL = (
    Soc("Ascend910B1", 48, 196608, 1800, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910B2", 48, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910B3", 40, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910B4", 40, 196608, 800, 0.89, 2900, 100663296, 0.6, 0.03),
    Soc("Ascend910B4-1", 40, 196608, 1600, 0.89, 3900, 176160768, 0.6, 0.03),
    Soc("Ascend910_9372", 40, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910_9381", 48, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910_9382", 48, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910_9391", 48, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
    Soc("Ascend910_9392", 48, 196608, 1600, 0.89, 5200, 201326592, 0.6, 0.03),
)
DEFAULT_SOC = "Ascend910B4"
"""What is tuned for and answered for where nothing tells the device."""
SOCS = {soc.name.lower(): soc for soc in _ALL}


def family(soc: str) -> str:
    """Ascend910B4-1 and 'ascend910B4 ' are of the family ascend910b4 (sglang#16360); Ascend910B3 is not."""
    name = soc.strip().lower()
    head, _, tail = name.rpartition("-")
    return head if head.startswith("ascend") and tail.isdigit() else name
