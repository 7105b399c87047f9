"""Experiments on what norms do to depth, training and precision: each a small plan, repeatable from its seeds, with a page of findings."""
