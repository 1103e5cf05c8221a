"""A Kubernetes cluster: pods and what owns them, by watch streams, with the user's own rights."""
