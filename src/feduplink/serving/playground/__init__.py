"""The playground: a cell in the browser, with the powers of every policy and their effects."""

from feduplink.serving.playground.router import playground_router

__all__ = ["playground_router"]
