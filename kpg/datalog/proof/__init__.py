"""Proof trees of Datalog rows, derived on demand from the maintained relations.

A *proof* of a row is a rule, values for its variables, and proofs of the rows in its body. It is
built top down. The rule's head is unified with the row, and the body is solved over the tables and
views (``rule_search``). Then each row of the solution is proved in turn (``rule_proofs``). The
rules carry no annotations, and no relation is recomputed in full.

*Recursion.* A proof of a row must not use that row. A row's *rank* is the round of the recursion in
which it appears (``runtime.worker.derivation_rounds``). Ranks are those of a computation from scratch, after
every update. A row of rank r has a derivation from rows of lower rank, so the search uses only
those. It never backtracks or loops, and its proofs have least height within a recursion. In a
recursion with MIN or MAX, superseded values are used only where the present values do not suffice.

*Sources.* Materialized relations are looked up; recursive ones are materialized for this purpose.
Other relations are derived by their rules for the requested values only.

An *absence* explains why a row does not hold. For each rule that could derive it, it shows how far
the body can be satisfied, and the literal that fails.
"""

from kpg.datalog.proof.rule_proofs import Explainer
from kpg.provenance.proof_tree import Absence, Failure, Kind, Proof, RuleText

__all__ = ["Absence", "Explainer", "Failure", "Kind", "Proof", "RuleText"]
