"""Lost events, asked for through the network itself and repaired by whoever has them."""
