"""What a network does to packets, as rules that are put together; and flows that share its bandwidth."""
