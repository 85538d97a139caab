"""What each strategy of this project holds on a rank, by its class."""
