"""The tests mirror the source tree: where to look for the test of a module of ``runtime/`` and ``kpg/``.

``runtime/a/b.py`` and ``kpg/a/b.py`` are tested by ``unit/a/test_b.py``; modules at the top by those in
``unit/runtime`` and ``unit/kpg``. What is tested as a part of something larger is listed here, and where.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
LINKED = {"compiler", "grammars", "runtime", "tpch"}

REFERENCES = "unit/kernels/test_references.py"
WHOLE = "properties/test_incremental_is_batch.py"
LOOPS = "properties/test_loops.py"
LATTICE = "properties/test_lattice.py"
OPERATORS = "unit/collections/test_operators.py"
COLLECTIONS = "unit/collections/test_against_python.py"
SHARING = "unit/collections/test_sharing.py"
PROOFS = "unit/datalog/proof/test_explainer.py"
VALUES = [
    "arrays",
    "bits",
    "bitstrings",
    "calendars",
    "conversions",
    "intervals",
    "jsons",
    "moments",
    "networks",
    "numeric",
    "parts",
    "ranges",
    "records",
    "small",
    "text",
    "words",
    "zones",
]
FUNCTIONS = "unit/functions/test_examples.py"
AGGREGATES = "unit/functions/test_aggregates.py"
MFP = "unit/mfp/test_compiled.py"
VIEWS = "unit/kpg/test_view.py"
COMMANDS = "unit/cli/test_commands.py"
DURABLE = "unit/durable/test_opening.py"
ROW_STORE = "unit/data/test_table.py"
EXPRESSIONS = "unit/mfp/test_model.py"
COMPILED = "unit/native/test_compiled.py"
CHAIN = "unit/chain/test_chain.py"
WINDOWS = "unit/operators/test_windows.py"
SESSIONS = "unit/sessions/test_session.py"
CLIENTS = "unit/server/test_clients.py"
LOGIN = "unit/server/test_login.py"
ROLES = "oracle/test_roles.py"
PEOPLE = "unit/server/test_people.py"
LISTENING = "unit/server/test_listening.py"

JSON_PATHS = "unit/functions/test_json_paths.py"
PAST = "unit/engine/test_past.py"


WORKERS = "properties/test_workers.py"

ELSEWHERE: dict[str, str] = {
    "kpg/dml/conflicting.py": "oracle/sql/conflicts.sql",
    "kpg/statements/showing.py": "unit/statements/test_statements.py",
    "kpg/settings/session_rows.py": "oracle/sql/statements_sessions.sql",
    "kpg/constraints/links.py": "unit/constraints/test_references.py",
    "kpg/settings/accepting.py": "oracle/sql/statements_sessions.sql",
    **dict.fromkeys(
        (
            "kpg/engine/lock_modes.py",
            "kpg/engine/row_locks.py",
            "kpg/settings/table_locks.py",
            "kpg/statements/closed.py",
            "kpg/statements/locking.py",
        ),
        "unit/sessions/test_row_locks.py",
    ),
    "kpg/settings/readonly.py": "oracle/sql/statements_sessions.sql",
    "kpg/statements/positioned.py": "oracle/sql/cursors_positioned.sql",
    "kpg/ddl/aggregates.py": "oracle/sql/aggregates_of_users.sql",
    "kpg/inheritance/beside.py": "oracle/sql/partitions_changed.sql",
    "kpg/ddl/altering_kin.py": "oracle/sql/partitions_changed.sql",
    "kpg/inheritance/inheriting.py": "oracle/sql/partitions_changed.sql",
    "kpg/inheritance/routing.py": "oracle/sql/partitions_changed.sql",
    "kpg/ddl/rereading.py": "unit/kpg/test_partitions_followed.py",
    **{
        f"runtime/{name}.py": WORKERS
        for name in (
            "operators/exchange",
            "operators/segment",
            "operators/together",
            "plan/placed",
            "render/shared",
            "sharing/company",
            "sharing/owners",
            "sharing/rows",
            "workers/asking",
            "workers/coordinator",
            "workers/holding",
            "workers/installing",
            "workers/member",
            "workers/messages",
            "workers/remote",
            "workers/rounds",
            "workers/threads",
        )
    },
    "runtime/kernels/partial.py": REFERENCES,
    "runtime/kernels/shards.py": REFERENCES,
    "kpg/engine/working.py": WORKERS,
    "kpg/profiling.py": "unit/kpg/test_database.py",
    "runtime/filling.py": "unit/kpg/test_progress.py",
    "kpg/drawing/graph.py": "unit/drawing/test_dataflow.py",
    "kpg/drawing/plans.py": "unit/drawing/test_drawing.py",
    "kpg/connecting.py": "unit/workers/test_processes.py",
    "runtime/workers/crew.py": "unit/workers/test_processes.py",
    "runtime/spark/view_task.py": "unit/spark/test_stage.py",
    "runtime/spark/landing.py": "unit/spark/test_stage.py",
    "runtime/spark/owning.py": "unit/spark/test_stage.py",
    "runtime/spark/landing_task.py": "unit/spark/test_stage.py",
    "runtime/workers/far.py": "unit/workers/test_landing.py",
    "runtime/workers/keys.py": "unit/workers/test_audit.py",
    "runtime/workers/verdicts.py": "unit/workers/test_audit.py",
    "runtime/workers/shipping.py": "unit/workers/test_landing.py",
    "runtime/spark/views.py": "unit/spark/test_stage.py",
    "runtime/workers/guest.py": "unit/workers/test_network.py",
    "runtime/workers/process.py": "unit/workers/test_processes.py",
    "runtime/workers/wire.py": "unit/workers/test_processes.py",
    "kpg/statements/calls.py": LISTENING,
    "kpg/listeners/states.py": "unit/server/test_activity.py",
    "kpg/constraints/violations.py": "unit/server/test_activity.py",
    "kpg/server/copied.py": "unit/server/test_asyncpg.py",
    "kpg/listeners/channels.py": LISTENING,
    "runtime/functions/json_items.py": JSON_PATHS,
    "runtime/functions/json_constructors.py": AGGREGATES,
    "runtime/values/jsonpath/reading.py": JSON_PATHS,
    "runtime/values/jsonpath/tree.py": JSON_PATHS,
    "runtime/values/jsonpath/writing.py": JSON_PATHS,
    "runtime/data/violations.py": ROW_STORE,
    "runtime/versions.py": CHAIN,
    "runtime/past.py": PAST,
    "runtime/saved/sharded.py": "unit/workers/test_shelving.py",
    "runtime/storage/shards.py": "unit/workers/test_shelving.py",
    "runtime/saved/loose.py": "unit/durable/test_rows.py",
    "runtime/storage/placed.py": "unit/durable/test_rows.py",
    "runtime/data/checking.py": "unit/durable/test_inspecting.py",
    "kpg/durable/checking.py": "unit/durable/test_inspecting.py",
    "kpg/cli/folders.py": "unit/durable/test_inspecting.py",
    "runtime/handles.py": "unit/runtime/test_local.py",
    "runtime/saved/forking.py": "unit/kpg/test_branching.py",
    "kpg/ingesting.py": "unit/dml/test_positions.py",
    # A kernel is compared with a plain reference; its own file has what that cannot reach, such as growth.
    **{
        f"runtime/kernels/{name}.py": REFERENCES
        for name in (
            [
                "accumulators",
                "checksum",
                "collect",
                "differences",
                "directory",
                "frames",
                "groups",
                "head",
                "limbs",
                "meet",
                "moments",
                "pairs",
                "ranges",
                "ranks",
                "rounds",
                "rowgroups",
                "seek",
                "slots",
                "tail",
                "text",
                "thresholds",
            ]
        )
    },
    **{
        f"runtime/ego/{name}.py": "unit/ego/test_engine.py"
        for name in (
            "counts",
            "extremes",
            "families",
            "family",
            "overlay",
            "patching",
            "reaching",
            "states",
            "sums",
            "written",
        )
    },
    **{
        f"runtime/kernels/{name}.py": "unit/ego/test_building.py"
        for name in ("bags", "bicliques", "covering", "deciding", "ids", "overlays")
    },
    "runtime/operators/ego.py": "unit/ddl/test_egos.py",
    "runtime/render/egos.py": "unit/ddl/test_egos.py",
    "runtime/plan/ego.py": "unit/plan/test_facts.py",
    "kpg/ddl/ego_view.py": "unit/ddl/test_egos.py",
    "kpg/ddl/ego_functions.py": "unit/ddl/test_egos.py",
    "runtime/kernels/rows.py": ROW_STORE,
    **{
        f"kpg/sessions/{name}.py": SESSIONS
        for name in (
            "cancel",
            "hub",
            "isolation",
            "jobs",
            "parking",
            "texts",
            "transactions",
            "turns",
        )
    },
    "kpg/sessions/turns.py": "unit/kpg/test_aio.py",
    "kpg/sessions/suspended.py": "unit/engine/test_locks.py",
    "kpg/server/telling.py": "unit/server/test_activity.py",
    "runtime/data/epochs.py": "unit/sessions/test_gathering.py",
    "kpg/server/binary.py": "unit/server/test_formats.py",
    "kpg/server/reply.py": "unit/server/test_lane.py",
    **{
        f"kpg/server/{name}.py": CLIENTS
        for name in (
            "client",
            "connection",
            "inference",
            "limits",
            "listen",
            "portal",
            "quick",
            "replies",
            "subscribing",
            "tags",
        )
    },
    "kpg/security/passwords.py": LOGIN,
    "kpg/server/logs.py": "unit/server/test_operating.py",
    "kpg/server/run.py": LOGIN,
    "kpg/server/web/answers.py": "unit/server/web/test_asking.py",
    "kpg/server/web/files.py": "unit/server/web/test_page.py",
    "kpg/server/web/outbox.py": "unit/server/web/test_events.py",
    "kpg/server/web/watching.py": "unit/server/web/test_events.py",
    "kpg/engine/steps.py": "unit/server/web/test_metrics.py",
    "kpg/cli/serve.py": COMMANDS,
    # A database in a folder is compared with what it was, whatever of it is kept how.
    **{f"kpg/durable/{name}.py": DURABLE for name in ("keeper", "known", "restoring", "state")},
    "runtime/lasting.py": DURABLE,
    **{f"kpg/datalog/{name}.py": DURABLE for name in ("restoring", "texts")},
    "kpg/engine/kept.py": DURABLE,
    # What runs in a chain is compared with operators that run one by one.
    **{f"runtime/kernels/{name}.py": CHAIN for name in ("calls", "chain", "links", "streams")},
    "runtime/kernels/arguments.py": "unit/chain/test_arguments.py",
    "runtime/chain/links.py": CHAIN,
    "runtime/chain/relay.py": CHAIN,
    "runtime/chain/replaced.py": CHAIN,
    "runtime/chain/looplinks.py": "unit/chain/test_rounds.py",
    "runtime/kernels/rounding.py": "unit/chain/test_rounds.py",
    "runtime/chain/small.py": CHAIN,
    **{f"runtime/kernels/{name}.py": EXPRESSIONS for name in ("plain", "vm", "words")},
    # Numbers that kernels and what calls them agree on: one that is wrong shows in every test of both.
    "runtime/kernels/layout.py": "unit/trace/test_lookup.py",
    "runtime/kernels/historytable.py": REFERENCES,
    "runtime/kernels/opcodes.py": EXPRESSIONS,
    # How kernels are compiled shows in what kernels that were compiled do, each way in a process of its own.
    **{
        f"runtime/native/{name}.py": COMPILED
        for name in ("declare", "emit", "identity", "jit", "job", "link", "load", "memory", "workers")
    },
    **{f"runtime/native/{name}.py": "unit/native/test_build.py" for name in ("ahead", "catalog", "ship")},
    "runtime/saved/keeper.py": "properties/test_checkpoints.py",
    "runtime/saved/stored.py": "properties/test_checkpoints.py",
    "runtime/saved/dormant.py": "properties/test_saved.py",
    "runtime/saved/form.py": "properties/test_saved.py",
    "runtime/saved/pasts.py": "properties/test_saved.py",
    "runtime/saved/rowgroups.py": "properties/test_saved.py",
    "runtime/saved/states.py": "properties/test_saved.py",
    "runtime/saved/tables.py": "properties/test_saved.py",
    "runtime/saved/traces.py": "properties/test_saved.py",
    "runtime/saved/worker.py": "properties/test_saved.py",
    "runtime/data/rowindex.py": ROW_STORE,
    "runtime/data/unique.py": "unit/constraints/test_references.py",
    # An operator is compared with its definition on the accumulated input, inside of dataflows.
    "runtime/dataflow/operator.py": WHOLE,
    "runtime/dataflow/scope.py": LOOPS,
    "runtime/dataflow/step.py": WHOLE,
    "runtime/operators/apply.py": OPERATORS,
    "runtime/operators/arrange.py": WHOLE,
    "runtime/operators/corners.py": LATTICE,
    "runtime/operators/custom.py": OPERATORS,
    "runtime/operators/expand.py": WHOLE,
    "runtime/functions/series.py": "unit/functions/test_tables.py",
    # Functions are compared with Postgres', over many arguments at once, and by their examples.
    **{
        f"runtime/functions/{name}.py": "oracle/test_postgres.py"
        for name in (
            "array_parts",
            "assigned_parts",
            "bits",
            "byte_strings",
            "digits",
            "digits_read",
            "elements",
            "extracts",
            "fields",
            "formatting",
            "integers",
            "json_edits",
            "json_makers",
            "json_tests",
            "moments",
            "posix",
            "powers",
            "reading",
            "regexps",
            "similar",
            "strings",
            "templates",
            "trigonometry",
        )
    },
    "runtime/operators/enterat.py": "unit/collections/test_loops.py",
    "runtime/operators/history.py": LATTICE,
    "runtime/operators/input.py": "unit/collections/test_clock.py",
    "runtime/operators/join.py": "properties/test_delta_join.py",
    "runtime/operators/reduce.py": WHOLE,
    "runtime/operators/source.py": WHOLE,
    **{
        f"runtime/operators/windows/{name}.py": WINDOWS
        for name in (
            "aggregates",
            "doubles",
            "evaluate",
            "frames",
            "layout",
            "moments",
            "operands",
            "ranking",
        )
    },
    **{
        f"runtime/operators/windows/{name}.py": "unit/operators/test_windows_locally.py"
        for name in ("index", "local", "partials", "reach")
    },
    "runtime/operators/windows/operator.py": WHOLE,
    "runtime/functions/windowing.py": WINDOWS,
    "runtime/plan/windows.py": "unit/plan/test_facts.py",
    "runtime/operators/userreduce.py": "unit/collections/test_reduce.py",
    "runtime/inputs.py": "unit/collections/test_clock.py",
    "runtime/installed.py": "unit/runtime/test_access.py",
    "runtime/recursion.py": PROOFS,
    "runtime/shutdown.py": SHARING,
    "runtime/worker.py": WHOLE,
    # Rendering shows in what is shared, and in what the operators give.
    "runtime/render/build.py": SHARING,
    "runtime/render/context.py": SHARING,
    "runtime/render/existing.py": SHARING,
    "runtime/render/identity.py": SHARING,
    "runtime/render/joins.py": "properties/test_delta_join.py",
    "runtime/render/level.py": WHOLE,
    "runtime/render/users.py": OPERATORS,
    # A trace is compared with its model.
    "runtime/trace/batch.py": "unit/trace/test_spine.py",
    "runtime/trace/folding.py": "unit/trace/test_spine.py",
    "runtime/trace/handle.py": "unit/trace/test_spine.py",
    "runtime/trace/holds.py": "unit/trace/test_spine.py",
    "runtime/trace/merge.py": "unit/kernels/test_merge.py",
    "runtime/trace/recent.py": "properties/test_head_is_its_model.py",
    "runtime/trace/tail.py": "properties/test_head_is_its_model.py",
    "runtime/trace/tiers.py": "unit/trace/test_spine.py",
    # Every function has examples, and is compared with a model inside of expressions.
    **{
        f"runtime/functions/{name}.py": FUNCTIONS
        for name in (
            [
                "arithmetic",
                "casts",
                "comparison",
                "conditional",
                "datalog",
                "dates",
                "order",
                "rounding",
                "rules",
                "spans",
                "zones",
                "arrays",
                "jsons",
                "rows",
                "vectors",
            ]
        )
    },
    **{
        f"runtime/functions/{name}.py": "oracle/sql/types_spelled.sql"
        for name in ("bit_strings", "bytes_as_text", "log_places", "networks", "ranges")
    },
    **{
        f"{name}.py": "oracle/sql/types_styles.sql"
        for name in (
            "runtime/functions/in_style",
            "runtime/values/styled",
            "runtime/values/styles",
        )
    },
    "kpg/ddl/altering_types.py": "oracle/sql/types_altered.sql",
    "runtime/functions/bounded_patterns.py": "unit/compiler/test_long_chains.py",
    "runtime/functions/addresses.py": FUNCTIONS,
    "runtime/functions/json_records.py": "oracle/sql/json_populate.sql",
    "runtime/functions/input_checks.py": FUNCTIONS,
    "runtime/functions/enums.py": "oracle/sql/types_enum_functions.sql",
    "runtime/functions/assorted.py": FUNCTIONS,
    "runtime/functions/range_makers.py": FUNCTIONS,
    "runtime/functions/range_sets.py": AGGREGATES,
    "runtime/functions/times_with_zones.py": "oracle/sql/types_spelled.sql",
    "kpg/server/binary_forms.py": "unit/server/test_formats.py",
    "kpg/server/received.py": "unit/server/test_formats.py",
    "kpg/server/received_forms.py": "unit/server/test_formats.py",
    "runtime/functions/aggregation.py": AGGREGATES,
    "runtime/functions/algorithms.py": AGGREGATES,
    "runtime/functions/gathered.py": AGGREGATES,
    "runtime/values/tojson.py": "oracle/sql/aggregates_gathered.sql",
    "runtime/functions/bounds.py": "oracle/test_postgres.py",
    "runtime/functions/exact_sums.py": "oracle/test_postgres.py",
    "runtime/functions/infinite.py": "oracle/test_postgres.py",
    "runtime/functions/keys.py": "oracle/test_postgres.py",
    "runtime/functions/numeric_spreads.py": AGGREGATES,
    "runtime/functions/ordered_sets.py": AGGREGATES,
    "runtime/functions/sequences.py": AGGREGATES,
    "runtime/functions/statistics.py": AGGREGATES,
    **{
        f"runtime/mfp/{name}.py": MFP
        for name in ("assemble", "errors", "few", "fuse", "lower", "memo", "reasons", "segment")
    },
    "runtime/convert/copying.py": "unit/dml/test_copying.py",
    "runtime/storage/decoding.py": "unit/storage/test_codec.py",
    "runtime/convert/texts.py": "unit/convert/test_arrow.py",
    "runtime/convert/interned.py": "unit/convert/test_arrow.py",
    **{f"runtime/values/{name}.py": "unit/values/test_codec.py" for name in VALUES},
    "runtime/convert/encoding.py": "unit/convert/test_arrow.py",
    "runtime/convert/foreign.py": "unit/collections/test_rows.py",
    **{f"runtime/spark/{name}.py": "unit/spark/test_load.py" for name in ("cast", "source", "write")},
    # Definitions without code of their own.
    "runtime/callbacks.py": OPERATORS,
    "runtime/executor.py": "unit/runtime/test_local.py",
    "runtime/plan/nodes.py": "unit/plan/test_facts.py",
    "runtime/plan/user.py": "unit/plan/test_facts.py",
    "runtime/scalar.py": MFP,
    "runtime/types.py": "unit/convert/test_values.py",
    # The face is tested as users see it.
    **{
        f"kpg/collections/{name}.py": COLLECTIONS
        for name in (
            [
                "arranging",
                "assembly",
                "collection",
                "columns",
                "dataflow",
                "expression",
                "outputs",
                "planned",
                "reducing",
                "term",
            ]
        )
    },
    "kpg/statements/direct.py": "unit/statements/test_planned.py",
    "kpg/collections/arranged.py": SHARING,
    "kpg/collections/joining.py": "unit/graph/test_conjunction.py",
    "kpg/collections/exporting.py": "unit/collections/test_sql.py",
    "kpg/collections/operator.py": OPERATORS,
    "kpg/collections/patterns.py": "unit/graph/test_conjunction.py",
    "kpg/collections/replaying.py": "unit/collections/test_records.py",
    "kpg/collections/scope.py": "unit/collections/test_loops.py",
    "kpg/collections/session.py": "unit/collections/test_clock.py",
    "kpg/collections/users.py": OPERATORS,
    "kpg/graph/labels.py": "unit/graph/test_components.py",
    **{
        f"kpg/cli/{name}.py": COMMANDS
        for name in ["explain", "functions", "imports", "numbers", "prompt", "script", "text"]
    },
    "runtime/functions/named.py": "unit/ddl/test_functions.py",
    "runtime/functions/own.py": "unit/ddl/test_functions.py",
    "runtime/operators/fold.py": "unit/ddl/test_functions.py",
    "runtime/mfp/columns.py": "unit/ddl/test_functions.py",
    "kpg/statements/sources.py": "unit/statements/test_outside.py",
    "kpg/cli/datalog.py": "unit/datalog/test_files.py",
    "kpg/cli/datalog_prompt.py": "unit/datalog/test_files.py",
    "kpg/datalog/answering.py": "unit/datalog/test_goal.py",
    "kpg/datalog/columnar.py": "unit/datalog/test_files.py",
    "kpg/datalog/dispatch.py": "unit/datalog/test_installing.py",
    "kpg/datalog/guard.py": "properties/test_goal_schedules.py",
    "kpg/datalog/planning.py": "unit/datalog/test_installing.py",
    "kpg/datalog/program.py": "unit/datalog/test_installing.py",
    "kpg/datalog/strata.py": "unit/datalog/test_query_form.py",
    "kpg/datalog/transcript.py": "unit/datalog/test_files.py",
    "kpg/datalog/json_rows.py": "unit/datalog/test_writing.py",
    "kpg/datalog/spelling.py": "unit/datalog/test_writing.py",
    "kpg/datalog/sqlite_tables.py": "unit/datalog/test_writing.py",
    **{
        f"kpg/datalog/proof/{name}.py": PROOFS
        for name in ["aggregates", "bindings", "build", "search", "store", "texts"]
    },
    **{f"kpg/proof/{name}.py": PROOFS for name in ["absence", "show", "tree"]},
    **{
        f"kpg/why/{name}.py": "unit/why/test_asked.py"
        for name in [
            "absence",
            "asking",
            "frames",
            "groups",
            "pieces",
            "recursion",
            "steps",
            "texts",
            "walk",
            "windows",
            "world",
        ]
    },
    "kpg/engine/client.py": "unit/statements/test_statements.py",
    "kpg/engine/engine.py": "unit/statements/test_statements.py",
    # Against a real Postgres.
    **{
        f"kpg/{name}.py": "oracle/test_postgres.py"
        for name in [
            "dml/changing",
            "dml/merging",
            "ddl/altering",
            "ddl/altering_columns",
            "ddl/altering_rules",
            "ddl/altering_table",
            "ddl/defining",
            "ddl/definitions",
            "constraints/filling",
            "engine/following",
            "ddl/indexes",
            "statements/once",
            "constraints/sequences",
            "settings/settings",
        ]
    },
    "kpg/constraints/guard.py": "unit/constraints/test_references.py",
    "kpg/engine/settled.py": "unit/sessions/test_session.py",
    "kpg/engine/journal.py": "unit/statements/test_statements.py",
    "kpg/engine/schemas.py": "unit/statements/test_statements.py",
    "kpg/listeners/feed.py": VIEWS,
    "kpg/dml/loading.py": "unit/statements/test_statements.py",
    "kpg/dml/modify.py": "unit/kpg/test_bad_input.py",
    "kpg/ddl/domains.py": "oracle/sql/types_domains.sql",
    "kpg/ddl/user_types.py": "oracle/test_postgres.py",
    "kpg/queries/planning.py": "unit/statements/test_statements.py",
    "kpg/statements/verify.py": VIEWS,
    "kpg/constraints/numbering.py": "unit/functions/test_chance.py",
    "kpg/security/roles.py": ROLES,
    "kpg/security/granting.py": ROLES,
    "kpg/security/memberships.py": ROLES,
    "kpg/security/meant.py": ROLES,
    "kpg/security/owning.py": ROLES,
    "kpg/ddl/temporary.py": "unit/sessions/test_temporary.py",
    "kpg/listeners/notices.py": PEOPLE,
}
"""Modules that have no file of tests of their own, and where they are tested."""


def modules(folder: str) -> list[str]:
    """The modules of a package that have code, as paths from the root."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT / folder).parts
        if not path.name.startswith("__") and not (folder == "kpg" and parts[0] in LINKED):
            found.append(path.relative_to(ROOT).as_posix())
    return found


MODULES = [*modules("runtime"), *modules("kpg")]


def own_test(module: str) -> Path:
    """The file of a module's own tests."""
    top, *folders, name = Path(module).parts
    return Path(TESTS, "unit", *(folders or [top]), f"test_{name}")


@pytest.mark.parametrize("module", MODULES)
def test_module_is_tested(module: str) -> None:
    """By a file of its own, or where it is said to be, and not both."""
    if module in ELSEWHERE:
        assert (TESTS / ELSEWHERE[module]).is_file()
        assert not own_test(module).is_file(), "take it off the list"
    else:
        assert own_test(module).is_file(), "write it, or say in the list where the module is tested"


def test_nothing_is_listed_that_is_gone() -> None:
    assert set(ELSEWHERE) - set(MODULES) == set()
