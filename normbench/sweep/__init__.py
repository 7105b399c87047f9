"""The largest batch of a network that fits in memory, by norm and provider, and tokens per second on the way there."""
