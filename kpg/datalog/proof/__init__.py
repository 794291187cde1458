"""Why a row holds, derived when it is asked, from what is maintained.

A *proof* of a row is a rule, values for its variables, and proofs of the rows of its body. It is built
from the top: the rule's head is unified with the row, its body solved over the tables and the views that
are there (``search``), and each row that this takes is proved in turn (``build``). Nothing is annotated while
rules run, and no relation is computed again as a whole.

*Recursion.* A row's proof must not use the row itself. The loop that maintains a recursive relation knows in
which round each row came: that is its *rank* (``store``, ``runtime.state.ranks``), which is right after
every update, deletions too, since it is what a computation from scratch would give. A row of rank r has
a derivation from rows of ranks below r, so the search takes no others: it never goes back on a choice, never
goes in circles, and gives proofs that are of least height within a recursion. Of a least or greatest value
in recursion, values that were derived and replaced since are used only where those that hold are not enough.

*What is there.* Relations that are maintained, and recursive ones, which this makes so, are looked up. One
that is not recursive and that nobody maintains is derived by its rules for the values that are asked for.

A row that does not hold has an *absence* (``absence``): for each rule that could give it, how far its
body can be satisfied, and the literal at which it fails.
"""

from kpg.datalog.proof.rule_proofs import Explainer
from kpg.provenance.proof_tree import Absence, Failure, Kind, Proof, RuleText

__all__ = ["Absence", "Explainer", "Failure", "Kind", "Proof", "RuleText"]
