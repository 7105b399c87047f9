"""Take measurements: clock, allocator, cache, threads, power, and the processes that hold them apart."""
