"""Decisions that are made in one place, whoever needs them. All of it is pure."""
