"""How large files from many hosts come to one soonest, through each other."""
