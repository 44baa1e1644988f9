"""Measures on a card what a profile's ranges stand for: probe kernels, a fit of the model to them, a local profile.

The probes are compiled for the model as they are for the card, and the model's numbers are fitted to the card's times.
"""
