"""A box for photos: upload one, watch its thumbnails being made, get one e-mail when they are
there."""
