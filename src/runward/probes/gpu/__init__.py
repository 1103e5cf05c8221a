"""GPUs as seen through NVML, nvidia-smi, AMD's tools and DCGM's exporter, none of which can block the watcher."""
