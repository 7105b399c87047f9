"""One network trained by several processes: every rank takes the same turns, and one process alone takes turns with them."""
