"""`tontine observe --web`: the observer in a browser's tabs, each a process of its own."""
