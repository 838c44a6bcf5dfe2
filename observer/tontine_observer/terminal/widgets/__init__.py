"""The parts of the screen. They show lines that `panes` drew and know nothing of jobs."""
