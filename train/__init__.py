"""How a run goes, in the order in which it goes."""
