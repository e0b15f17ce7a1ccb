"""From the publisher's broker to the subscribers' brokers: who wants what, who offers what, and which way that is."""
