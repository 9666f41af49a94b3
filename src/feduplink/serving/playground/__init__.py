"""Playground: a web page that shows a cell, the powers of all policies and their effects."""

from feduplink.serving.playground.router import playground_router

__all__ = ["playground_router"]
