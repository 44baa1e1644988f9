"""One sweep on several machines, over a storage that they share."""
