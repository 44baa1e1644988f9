"""Where CANN and the NPU's driver are, and which versions (from files alone)."""

from __future__ import annotations

import os
import re
from pathlib import Path

UNKNOWN = "unknown"
_DEFAULT_HOME = Path("/usr/local/Ascend/ascend-toolkit/latest")
_DRIVER_INFO = Path("/usr/local/Ascend/driver/version.info")


def home() -> Path:
    """The toolkit's folder, whether or not it is there: set_env.sh names it, else it is where the installer puts it."""
    return Path(os.environ.get("ASCEND_HOME_PATH") or _DEFAULT_HOME)


def toolkit_version() -> str:
    return _version_in(home() / "version.cfg", *sorted(home().glob("*-linux/ascend_toolkit_install.info")))


def driver_version() -> str:
    return _version_in(_DRIVER_INFO)


def _version_in(*files: Path) -> str:
    """The version that the first file that has one gives in a line `version=...`, in whatever case and brackets."""
    for file in files:
        if file.is_file():
            found = re.search(r"version\w*=\[?([^\]\s:]+)", file.read_text("utf-8", "replace"), re.IGNORECASE)
            if found:
                return found[1]
    return UNKNOWN
