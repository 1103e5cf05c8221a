"""Local processes, each attempt under a keeper of its own that outlives whoever watches."""
