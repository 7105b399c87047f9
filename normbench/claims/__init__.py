"""Published figures as data, each with its scope, held against what is measured or computed here."""
