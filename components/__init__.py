"""What a run is made of: one module or folder per config group, with the group's own name."""
