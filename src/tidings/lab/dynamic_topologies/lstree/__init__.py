"""The tree that finds itself, under churn and in a catastrophe: E16 to E21 (section 10.4 of the source)."""
