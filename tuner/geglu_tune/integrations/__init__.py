"""Other packages' ways to the tuned kernels."""
