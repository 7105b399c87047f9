"""The built-in providers, one module each; they come through the same decorator as anyone's own."""
