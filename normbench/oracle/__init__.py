"""Is it right? A case's tensors, what they should become in float64, and how far a provider may be from that."""
