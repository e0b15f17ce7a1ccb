"""Epidemics for publications: in groups, and around failed brokers."""
