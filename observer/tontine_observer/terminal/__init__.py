"""The stage on a terminal, with Textual: screens, dialogs, files, and the carrying out of
commands."""
