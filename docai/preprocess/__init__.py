"""Pictures into what vision towers read: resizing, cropping, tiling, cutting into patches, in NumPy and Pillow."""
