"""What can go wrong between us and Spark, said so that one knows what to do."""


class SparkMissing(Exception):
    """Spark cannot be started here; the message says what to install."""
