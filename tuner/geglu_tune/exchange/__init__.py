"""What was tuned, as a file that can be sent to someone else."""
