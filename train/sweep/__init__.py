"""A sweep: which jobs it has, which of them run, where, how many at once, and how it ends."""
