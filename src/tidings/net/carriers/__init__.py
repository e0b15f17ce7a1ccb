"""The transport over networks that are not ours: servers that carry messages and know nothing of content."""
