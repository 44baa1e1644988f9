"""Studies: one, which runs where and when, and all of them."""
