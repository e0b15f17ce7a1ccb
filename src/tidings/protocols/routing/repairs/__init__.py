"""What a change of the tree means for routing tables: the published ways to repair them, a file each."""
