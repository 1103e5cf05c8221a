"""A served emulation of the Kubernetes API for tests: real HTTP, lists in pages, watches with bookmarks and 410 Gone,
logs, exec over WebSocket, RBAC by a manifest's own rules, and the faults that API servers and proxies show.

PyPI's `kmock` was looked at: it serves answers that a test writes out, and knows neither compacted versions, nor
bookmarks, nor exec, nor RBAC, which are what has to be proven here. Not a cluster: there is no scheduler and no kubelet.
"""

from kubeapi.cluster import Cluster, Fault
from kubeapi.server import Served

__all__ = ["Cluster", "Fault", "Served"]
