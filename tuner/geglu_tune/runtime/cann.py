"""Where CANN and the NPU's driver are, and which versions (from files alone; standard library alone)."""

from __future__ import annotations

import os

UNKNOWN = "unknown"
_DEFAULT_HOME = "/usr/local/Ascend/ascend-toolkit/latest"
_DRIVER_INFO = "/usr/local/Ascend/driver/version.info"


def home() -> str:
    """The toolkit's folder, whether or not it is there: set_env.sh names it, else it is where the installer puts it."""
    return os.environ.get("ASCEND_HOME_PATH") or _DEFAULT_HOME


def toolkit_version() -> str:
    folder = home()
    machines = sorted(name for name in _listed(folder) if name.endswith("-linux"))
    infos = [os.path.join(folder, name, "ascend_toolkit_install.info") for name in machines]
    return _version_in(os.path.join(folder, "version.cfg"), *infos)


def driver_version() -> str:
    return _version_in(_DRIVER_INFO)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _version_in(*files: str) -> str:
    """The version that the first file that has one gives in a line `version=...`, in whatever case and brackets."""
    for file in files:
        if os.path.isfile(file):
            import re  # takes longer to import than most lookups take, and is not needed where there is no CANN

            with open(file, encoding="utf-8", errors="replace") as opened:
                found = re.search(r"version\w*=\[?([^\]\s:]+)", opened.read(), re.IGNORECASE)
            if found:
                return found[1]
    return UNKNOWN
