"""What a cluster's ranks and links can do, measured before a run."""
