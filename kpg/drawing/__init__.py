"""Dataflows and plans as SVG, which notebooks show."""
