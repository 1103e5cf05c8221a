"""Containers of a Docker engine, or of anything that speaks its API (Podman, rootless, over ssh)."""
