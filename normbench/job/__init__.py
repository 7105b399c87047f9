"""The main job: from the words of a user to cases, to records on disk."""
