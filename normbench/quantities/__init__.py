"""Numbers with intervals and units: from samples to medians, through arithmetic, to text. Pure."""
