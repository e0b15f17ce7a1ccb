"""Collecting large files from many hosts at one, through each other."""
