"""How fast is the index, beside what one would write without it? `python -m bench` measures and says so."""
