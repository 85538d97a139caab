"""How a run that stalls, waits in vain or drifts is noticed, and what is told of it."""
