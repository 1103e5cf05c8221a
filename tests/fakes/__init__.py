"""Fakes that satisfy the ports."""
