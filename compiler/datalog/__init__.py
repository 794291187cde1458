"""The Datalog front end: program text to a checked program of rules (``kpg.compiler.rules``).

``check.check`` is the entry point. ``preprocessor`` expands macros and includes, and ``parser`` builds the
tree of ``syntax``. ``flowlog`` translates FlowLog's dialect. ``types`` reads declarations and infers the type
of every expression. ``desugar.safety`` checks that rules bind their
variables. ``clauses`` brings each rule to the normal form of ``desugar``. ``core_program`` collects
the rules of the core, and ``stratification`` checks the program as a whole. Each fault becomes a
``Diagnostic``, and a check reports all of them.
"""
