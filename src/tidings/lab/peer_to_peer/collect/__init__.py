"""Confluence: collecting large files at one of many hosts, through each other."""
