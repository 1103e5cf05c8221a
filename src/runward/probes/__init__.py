"""Readers of one source of facts each: kernel log, cgroups, GPUs, disks, processes."""
