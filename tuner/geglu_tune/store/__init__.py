"""Everything that was tried, and the best of it, in one SQLite file."""

from __future__ import annotations

from geglu_tune.store.database import Store
from geglu_tune.store.records import BestRecord, Chosen, Provenance, StudyRecord, TrialRecord

__all__ = ["BestRecord", "Chosen", "Provenance", "Store", "StudyRecord", "TrialRecord"]
