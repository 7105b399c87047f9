"""Words in and out: what a user can type, and Markdown. Pure."""
