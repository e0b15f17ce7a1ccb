"""Carrying a plan out: a deployer that gives the orders, and an agent in every broker."""
