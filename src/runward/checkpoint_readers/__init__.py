"""Reads checkpoints of training frameworks without any of them: which are complete, and why another is not.

Standard library only, Python 3.9, nothing else of ours: the same files are shipped as one zipapp to machines
where Runward is not installed (`python3 verify.pyz DIR --json`). Never unpickles.
"""
