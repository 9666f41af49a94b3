"""What comes from the radio simulator Sionna: ``pip install 'feduplink[sionna]'``."""
