"""The dataflow graph: operators, scopes and steps."""
