"""What a network is tried with when everything may go wrong at once, and who judges what comes of it."""
