"""The words of publish/subscribe that protocols share: signals between the parts of a node, publications, notes."""
