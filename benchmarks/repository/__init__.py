"""What model repositories cost: downloads, starts, polls and reloads (`make bench-repository`)."""
