"""Scenarios that ship with the package, as YAML files (see ``Scenario.from_yaml``)."""
