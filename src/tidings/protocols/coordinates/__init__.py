"""Where nodes are, by how far they are from each other."""
