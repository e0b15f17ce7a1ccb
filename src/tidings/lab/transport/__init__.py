"""Experiments on the transport; the numbers are those of the specification (4.1 to 4.3). E1 to E5 measure the network
under it, before any transport is put on it; E6 to E9 ordering, and how losses are found; E10 to E16 recovery; E17
to E25 congestion control. `loss` is our own."""
