"""Was it made slower? Head beside base, on this machine, now, with a known error rate."""
