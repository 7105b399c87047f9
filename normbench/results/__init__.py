"""What records say beside each other: rates, speed-ups, shares, and what a network saves. Pure."""
