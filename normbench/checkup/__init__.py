"""Every provider against float64: what is checked, how it is run, and what is told of it. See `normbench check`."""
