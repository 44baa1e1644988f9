"""One sweep on several machines, through an Optuna storage."""
