"""Use cases: the watch loop, recovery, diagnosis, patrol. They reach the world through ports only."""
