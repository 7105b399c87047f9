"""Kernel quality judged without a GPU: what a provider launches, compiled for architectures that are not here, and what it costs."""
