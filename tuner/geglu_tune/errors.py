"""Errors that a person reads: one line saying what, why and what to do (standard library alone)."""

from __future__ import annotations


class GegluTuneError(Exception):
    """Something failed; the command line prints the message alone and exits 1."""


class NotTunedError(GegluTuneError):
    """GEGLU_TUNE_REQUIRE asks for a better tuned tiling than there is."""


class ConflictError(GegluTuneError):
    """Another process has written the same row first."""


class UsageError(GegluTuneError):
    """What was asked for makes no sense; the command line exits 2."""
