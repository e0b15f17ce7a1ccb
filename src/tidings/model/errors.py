"""The one error a caller sees when it called us wrongly, and its form for filter text."""


class UsageError(ValueError):
    """Something was called with a value that cannot be used; the message names it and says what to do."""


class FilterSyntaxError(UsageError):
    """Filter text that does not parse: where (a caret under the place), and what was expected there."""

    def __init__(self, message: str, text: str, position: int) -> None:
        self.text, self.position, self.problem = text, position, message
        super().__init__(f"{message}\n{point_at(text, position)}")


CONTEXT_CHARS = 60


def point_at(text: str, position: int) -> str:
    """The line of `text` around `position` with a caret below it; long text is cut on both sides."""
    position = min(max(position, 0), len(text))
    begin, end = max(0, position - CONTEXT_CHARS), min(len(text), position + CONTEXT_CHARS)
    before, after = ("... " if begin else ""), (" ..." if end < len(text) else "")
    line = "".join(character if character.isprintable() else " " for character in text[begin:end])
    return f"  {before}{line}{after}\n  {' ' * (len(before) + position - begin)}^"
