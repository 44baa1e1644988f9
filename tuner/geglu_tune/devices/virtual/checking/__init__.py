"""Whether a compiled program computes its kernel."""
