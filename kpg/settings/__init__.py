"""What a session sets: SET, SHOW and RESET, the styles of text, transactions that only read."""
