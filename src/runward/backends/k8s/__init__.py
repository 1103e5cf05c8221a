"""Pods of a Kubernetes cluster, by kubectl with the user's own rights."""
