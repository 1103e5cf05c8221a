"""The small process that is parent of an attempt's command and outlives its watcher."""
