"""Jobs of a Slurm cluster, asked through its own commands."""
