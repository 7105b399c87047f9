"""Whole networks, and the norms in them: found, placed, swapped and converted."""

from .networks import network as network
from .norms import find_norms as find_norms
from .swap import swap_norms as swap_norms
