"""Runs beyond one machine: taken apart into shards, joined again, or spread over a cluster."""
