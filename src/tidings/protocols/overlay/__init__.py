"""Which links of the network carry events: the overlay that routing works on."""
