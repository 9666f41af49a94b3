"""Flower: feduplink's uplink in real deployments."""
