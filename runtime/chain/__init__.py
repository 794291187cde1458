"""Small steps through many operators in one compiled call."""
