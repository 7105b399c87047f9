"""This machine: what it is, what it grants this process, and its vital signs while others work."""
