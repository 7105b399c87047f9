"""Triton kernels and how they are launched. Nothing here imports Triton until a kernel is asked for."""
