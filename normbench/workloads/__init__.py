"""Turn a case into calls, one module per tier."""
