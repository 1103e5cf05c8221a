"""Scanning of logs: many patterns at once over bytes that come in any pieces, and the readers that bring them."""

from runward.scan.patterns import Compiled, Known, Options, compile  # noqa: A004
from runward.scan.scanner import LineScanner

__all__ = ["Compiled", "Known", "LineScanner", "Options", "compile"]
