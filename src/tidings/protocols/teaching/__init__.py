"""Two small protocols to learn the contract from; `docs/guide/tutorial.md` walks through the first."""
