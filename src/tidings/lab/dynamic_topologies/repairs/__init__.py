"""E1 to E15, on repairs of routing (chapter 7): what replacing one link of a tree by another costs."""
