"""The small process that is parent of an attempt's command and outlives its watcher.

A folder of standard-library modules for Python 3.9 and later: copied to another machine as it is, and started
there by `python3 -I -S keeper/__main__.py ATTEMPT_DIR FD`.
"""
