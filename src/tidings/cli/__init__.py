"""The command line: nouns then verbs, thin over the packages below it."""
