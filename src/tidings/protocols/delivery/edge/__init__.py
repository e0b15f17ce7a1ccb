"""The broker's side of delivery: publishers and subscribers that are its clients, and their history."""
