"""What Runward knows and decides, without touching the world: no clock, files, processes or threads."""
