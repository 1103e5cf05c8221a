"""Commands in a pod under a keeper there, reached by `kubectl exec`; nothing but the pod's own python3 is needed."""
