"""Over HTTP: the allocation service for machines and the playground for people."""
