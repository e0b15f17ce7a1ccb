"""An ordinary client beside attackers: what it waits, and what a broker does in one go."""
