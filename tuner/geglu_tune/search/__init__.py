"""What may be tried for a workload, what to try first, and what to try next."""
