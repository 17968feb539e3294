"""Files in, rows of tokens out: one file a layout, told apart by content, and one number that says where a
run is."""
