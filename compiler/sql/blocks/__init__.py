"""PL/pgSQL: the bodies of functions, procedures and DO, as trees whose expressions and queries stay text."""
