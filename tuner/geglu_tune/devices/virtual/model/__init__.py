"""What decides a virtual time; the hash of this folder is the version of the virtual device."""
