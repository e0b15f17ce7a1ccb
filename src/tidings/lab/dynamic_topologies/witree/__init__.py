"""Dynamic topologies E29 to E34: trees over radio, whose nodes walk."""
