"""Runward keeps GPU training runs running."""

__version__ = "0.1.0"
