"""Liger-Kernel's Ascend operators as programs that nobody here wrote: recorded on the CPU from their own host code."""
