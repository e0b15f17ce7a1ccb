"""The filter language: text to expression (`parser`), its exact value (`evaluation`), its normal form (`normal_form`).

`expression` is the tree in the middle, `text_form` the way back to text, `builder` the same language in Python.
"""
