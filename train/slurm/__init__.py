"""Runs and sweeps as jobs of Slurm: submitted, followed, and told of."""
