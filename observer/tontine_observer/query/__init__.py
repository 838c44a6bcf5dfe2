"""What a user asks for in words: filters, orders, and what of a filter the store can be asked.
Pure."""
