"""The model against what others measured: kernels that stand for theirs, their figures, and the page that compares.

`python results/validate.py` runs it.
"""
