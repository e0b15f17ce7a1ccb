"""Who may come in, as what, and within which bounds."""
