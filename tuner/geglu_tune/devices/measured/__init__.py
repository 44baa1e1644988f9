"""Measured devices: real cards, timed in a process of their own.

The parent imports neither torch nor a driver: `runner` and `client` are its side, `messages` go between, and all
else lives in the worker. What a kind of card does differently is in its adapter alone.
"""
