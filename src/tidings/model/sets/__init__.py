"""Sets of values and of events: what a constraint, a conjunction and a union of them accept.

`numbers` and `texts` are sets of one kind of value, `constraint` a set of values of one attribute, `conjunction` a set
of events; `witness` finds an event inside one and outside another.
"""
