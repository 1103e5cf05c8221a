"""The Python interface of Hydra users' Slurm monitors (MonitorController and what it needs), thin over Runward.

Signals, policies by mode, Slurm's states and the reading of logs are Runward's own; here are the names, records, files
and log lines that scripts around them expect. `aliases.install()` offers them under the module names of upstream.
"""
