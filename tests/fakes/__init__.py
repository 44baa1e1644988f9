"""Stand-ins for what cannot exist on a test machine: a device."""
