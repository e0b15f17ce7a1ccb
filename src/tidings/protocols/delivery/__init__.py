"""Between clients and their brokers: subscriptions with a guarantee and a receipt, publications with a history."""
