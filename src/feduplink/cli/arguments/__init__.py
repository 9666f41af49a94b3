"""The options of every command, declared without importing what computes."""
