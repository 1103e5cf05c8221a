"""Jobs of a Ray cluster, over the REST API of its dashboard; Ray itself is never imported."""
