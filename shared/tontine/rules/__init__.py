"""What is decided from records: each question has one answer here, whoever asks. Pure."""
