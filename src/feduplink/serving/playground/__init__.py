"""A cell one can play with: workers on a map, and what every policy makes of them, live."""

from feduplink.serving.playground.playground_router import playground_router

__all__ = ["playground_router"]
