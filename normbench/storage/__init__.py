"""Files that survive a crash: runs, journals, pages."""
