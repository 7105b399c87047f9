"""What is measured: cases of every tier, the conditions they are run under, and the grids that name many at once. Pure."""
