"""Where commands are executed: on this machine, over ssh, in a pod. One module a place."""
