"""Which source a kernel was compiled from (standard library alone)."""

from __future__ import annotations

import os
import zlib

import geglu_kernels
from geglu_kernels.specs import KERNELS, SHARED_MODULE

_hashes: dict[str, str] = {}


def kernel_hash(kernel: str) -> str:
    """Checksum of the kernel's source files, which are all that any compiler sees of it.

    A CRC tells one source from the next; anything stronger takes as long to import as a first lookup may take in all.
    Raises OSError if a file cannot be read.
    """
    module = KERNELS[kernel].module
    if module not in _hashes:
        checksum = 0
        for part in (SHARED_MODULE, module):
            names = part.split(".")[1:]
            with open(os.path.join(os.path.dirname(geglu_kernels.__file__), *names) + ".py", "rb") as source:
                checksum = zlib.crc32(source.read(), checksum)
        _hashes[module] = f"{checksum:08x}"
    return _hashes[module]
