"""The faults of a machine, and what to do about each."""
