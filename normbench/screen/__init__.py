"""What a terminal shows: tables that fit it, and the bar of long work."""
