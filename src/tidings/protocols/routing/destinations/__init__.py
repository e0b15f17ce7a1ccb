"""B-DRP: every broker knows what every other one wants, and events carry the list of their destinations."""
