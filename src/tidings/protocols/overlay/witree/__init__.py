"""WiTree, a tree over radio whose nodes move."""
