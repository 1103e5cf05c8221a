"""Finds known patterns in logs: multi-literal engines, the tailer, reading of compressed and odd files."""
