"""What a filter asks of one attribute.

A constraint is a set of values: those whose readings (`values.py`) all lie in the sets given. `number` is a condition
on the value read as a number, `text` on its text, `truth` on its truth; None is no condition. A constraint with none
of them asks only that the attribute exists. `present=False` asks that it does not, and then nothing else is set.

    price > 100 AND price != 105     number = (100, 105) u (105, inf)
    symbol IN ('IBM', 'AAPL')        text = {'AAPL', 'IBM'}
    name LIKE 'ab%'                  text = the strings that begin with ab
    urgent = TRUE                    truth = TRUE
    EXISTS price                     no condition
    NOT EXISTS price                 present = False
"""

import msgspec

from tidings.model.numbers import NumberSet
from tidings.model.texts import TextSet
from tidings.model.values import Value, number_of, text_of, truth_of


class Constraint(msgspec.Struct, frozen=True):
    """The values an attribute may have. `accepts(None)` asks about an absent attribute."""

    name: str
    present: bool = True
    number: NumberSet | None = None
    text: TextSet | None = None
    truth: bool | None = None

    def accepts(self, value: Value | None) -> bool:
        if value is None or not self.present:
            return value is None and not self.present
        if self.number is not None:
            number = number_of(value)
            if number is None or number not in self.number:
                return False
        if self.text is not None and text_of(value) not in self.text:
            return False
        return self.truth is None or truth_of(value) is self.truth
