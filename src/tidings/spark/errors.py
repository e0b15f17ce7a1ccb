"""What can go wrong between us and Spark, said so that one knows what to do."""

from tidings.model.errors import UsageError


class SparkMissing(UsageError):
    """Spark cannot be started here; the message says what to install."""
