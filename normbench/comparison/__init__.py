"""Two stored runs side by side: what may be compared, what differs, and what runs taken at different times cannot tell."""
