"""Take measurements: clock, pages, turns, and the processes that hold them apart."""
