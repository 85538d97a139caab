import not_there  # noqa: F401


class Model:
    """Out of reach: its module needs a package that nobody has."""
