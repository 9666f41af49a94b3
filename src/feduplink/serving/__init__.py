"""The allocation service: powers for CSI by HTTP, from an exported policy.

:mod:`~feduplink.serving.app` is the service, :mod:`~feduplink.serving.listening` runs it on a
socket. Both need the extra ``serve``; nothing here is imported without it but the limits, which
are options of a command.
"""
