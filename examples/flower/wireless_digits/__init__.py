"""A model and data of your own over feduplink's wireless uplink."""
