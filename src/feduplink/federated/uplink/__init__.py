"""uplink"""
