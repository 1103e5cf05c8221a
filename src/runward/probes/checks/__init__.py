"""Checks of `doctor`: one module an area, each a function from what is asked to its findings.

A new area is a module here and a line in the list where they are put together. A check never raises for
what it cannot see: that is a finding of level `unseen` with the reason.
"""
