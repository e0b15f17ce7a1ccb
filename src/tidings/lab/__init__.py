"""Every published experiment as a definition that runs, is judged and drawn: `tidings lab`."""
