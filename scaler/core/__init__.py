"""Says how many replicas demand needs and why. Pure: no clock, I/O, logging or threads."""
