"""What is read, heard and shown, as frozen records; every text in them is clean. Pure."""
