"""What is kept on the disk, and the keys by which it is found."""
