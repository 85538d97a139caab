"""What a run needs, before it is started: `python -m train.plan`."""
