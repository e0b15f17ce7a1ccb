"""A broker answers questions about itself."""
