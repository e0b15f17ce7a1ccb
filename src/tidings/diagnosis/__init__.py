"""What the answers of all brokers of a network mean together: is it as it should be, and where does an event end?"""
