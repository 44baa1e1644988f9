"""What is installed, and what of an extra is not."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from geglu_tune.errors import GegluTuneError


def version_of(distribution: str) -> str | None:
    """The version that is installed; None if it is not."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def need(what: str, extra: str, *modules: str) -> None:
    """Raises GegluTuneError naming the extra that brings them where `what` lacks some of the modules that it needs."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise GegluTuneError(f"{what} needs {', '.join(missing)}; pip install 'geglu-tune[{extra}]'")
