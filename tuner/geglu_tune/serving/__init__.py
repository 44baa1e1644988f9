"""Answering from tuned rows, at run time (standard library alone)."""
