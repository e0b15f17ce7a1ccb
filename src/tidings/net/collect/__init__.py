"""Collections on real machines: files and folders, agents, and who wants the files."""
