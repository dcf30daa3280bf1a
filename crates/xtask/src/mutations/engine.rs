//! Mistakes in the packet IR, the compiler and tables.

use super::{Mutation, Test};

const TABLE_MODEL: Test = Test { package: "weir-table", target: Some("model"), filter: "" };
const TABLE_TIMES: Test = Test { package: "weir-table", target: None, filter: "set::" };
const TABLE_ROWS: Test = Test { package: "weir-table", target: None, filter: "table::tests::" };
const TABLE_INDEX: Test = Test { package: "weir-table", target: None, filter: "exact::" };
const TABLE_LPM: Test = Test { package: "weir-table", target: None, filter: "lpm::" };
const TABLE_RULES: Test = Test { package: "weir-table", target: None, filter: "rules::" };
const TABLE_WHEEL: Test = Test { package: "weir-table", target: None, filter: "wheel::" };
const PASSES: Test =
    Test { package: "weir-ir", target: Some("passes"), filter: "the_passes_keep_the_meaning" };
const PASS_CASES: Test =
    Test { package: "weir-ir", target: Some("passes"), filter: "each_pass_does_what_its_cases_say" };
const CHAINS: Test = Test {
    package: "weir-jit",
    target: Some("pairs"),
    filter: "chains_of_arithmetic_mean_the_same_everywhere",
};
const JIT: Test = Test { package: "weir-jit", target: Some("differential"), filter: "" };
const JIT_RULES: Test = Test { package: "weir-jit", target: Some("differential"), filter: "rules::" };
const PAIRS: Test = Test {
    package: "weir-jit",
    target: Some("pairs"),
    filter: "generated_programs_mean_the_same_everywhere",
};
const LARGE: Test = Test {
    package: "weir-jit",
    target: Some("pairs"),
    filter: "programs_with_large_tables_mean_the_same_everywhere",
};
const EBPF: Test = Test { package: "weir-ebpf", target: Some("differential"), filter: "" };
const FLOWS: Test =
    Test { package: "weir-jit", target: Some("pairs"), filter: "flows_mean_the_same_while_tables_change" };
const WAKEUP: Test = Test { package: "weir-io", target: Some("wakeup_model"), filter: "" };
const FRAMES: Test = Test { package: "weir-ir", target: Some("frames"), filter: "" };

/// Those of a package together.
pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a wakeup is noted only for who sleeps",
        file: "crates/weir-io/src/wakeup.rs",
        text: "self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP",
        instead: "self.state.compare_exchange(ASLEEP, WOKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()",
        test: WAKEUP,
    },
    Mutation {
        name: "work that was put down before a wakeup is not seen behind it",
        file: "crates/weir-io/src/wakeup.rs",
        text: "self.state.swap(AWAKE, Ordering::AcqRel);\n        fence(Ordering::SeqCst);",
        instead: "self.state.swap(AWAKE, Ordering::AcqRel);",
        test: WAKEUP,
    },
    Mutation {
        name: "a growing index loses cells",
        file: "crates/weir-table/src/exact.rs",
        text: "*next = until;",
        instead: "*next = until + 1;",
        test: TABLE_MODEL,
    },
    Mutation {
        name: "a removal leaves a hole in a run",
        file: "crates/weir-table/src/exact.rs",
        text: "(next.wrapping_sub(home) & mask) >= (next",
        instead: "(next.wrapping_sub(home) & mask) > (next",
        test: TABLE_MODEL,
    },
    Mutation {
        name: "a prefix is painted over a longer one",
        file: "crates/weir-table/src/lpm/directory.rs",
        text: "next = u64::from(last(inner, inner_len)) + 1;",
        instead: "next = u64::from(last(inner, inner_len));",
        test: TABLE_LPM,
    },
    Mutation {
        name: "an answer ends with the first of its rows",
        file: "crates/weir-table/src/prefix_rows.rs",
        text: "found.rows += 1;",
        instead: "found.rows += 0;",
        test: TABLE_ROWS,
    },
    Mutation {
        name: "the row that is fetched is always that of the first cell",
        file: "crates/weir-table/src/exact.rs",
        text: "select_unpredictable(first & TAG == hash & TAG, first, second)",
        instead: "select_unpredictable(first & TAG == hash & TAG, first, first)",
        test: TABLE_INDEX,
    },
    Mutation {
        name: "a block of many ranges keeps some of them",
        file: "crates/weir-table/src/lpm/blocks.rs",
        text: "None if ranges > RANGES => {",
        instead: "None if ranges > RANGES + 1 => {",
        test: TABLE_LPM,
    },
    Mutation {
        name: "a range ends one key early",
        file: "crates/weir-table/src/lpm/ranges.rs",
        text: "edges.extend(last(first, len).checked_add(1));",
        instead: "edges.push(last(first, len));",
        test: TABLE_LPM,
    },
    Mutation {
        name: "a removed rule forgets whom it hid",
        file: "crates/weir-table/src/rules/index.rs",
        text: "if hides {",
        instead: "if !hides {",
        test: TABLE_RULES,
    },
    Mutation {
        name: "a removed rule of a tuple is still found",
        file: "crates/weir-table/src/rules/tuple.rs",
        text: "if *tag != 0 && self.cells[at] == head {",
        instead: "if *tag == 0 && self.cells[at] == head {",
        test: TABLE_RULES,
    },
    Mutation {
        name: "a bucket of timers forgets its earliest",
        file: "crates/weir-table/src/wheel.rs",
        text: "chunk.first = chunk.first.min(timer.when);",
        instead: "chunk.first = timer.when;",
        test: TABLE_WHEEL,
    },
    Mutation {
        name: "fold: x - d + c becomes x + (d - c)",
        file: "crates/weir-ir/src/passes/fold.rs",
        text: "(Sub, Add) => Some((Add, c.wrapping_sub(d))),",
        instead: "(Sub, Add) => Some((Add, d.wrapping_sub(c))),",
        test: CHAINS,
    },
    Mutation {
        name: "cse: what was done on another path counts",
        file: "crates/weir-ir/src/passes/cse.rs",
        text: "Entry::Occupied(same) if flow.dominates(same.get().0, b) => {",
        instead: "Entry::Occupied(same) => {",
        test: PASSES,
    },
    Mutation {
        name: "forward: bytes outlive a trim",
        file: "crates/weir-ir/src/passes/forward.rs",
        text: "known.cut(&here, &facts);",
        instead: "known.meta = known.meta;",
        test: PASSES,
    },
    Mutation {
        name: "stores: a read keeps one byte too few alive",
        file: "crates/weir-ir/src/passes/stores.rs",
        text: "(p.off + n <= at.off || at.off + len <= p.off)",
        instead: "(p.off + n <= at.off || at.off + len <= p.off + 1)",
        test: PAIRS,
    },
    Mutation {
        name: "stores: who reads annotations behind an exit is forgotten",
        file: "crates/weir-ir/src/passes/stores.rs",
        text: "End::Exit { exit } if p.plain_exits.contains(&exit) => Dead::plain(),",
        instead: "End::Exit { .. } => Dead::plain(),",
        test: PASSES,
    },
    Mutation {
        name: "sink: a load sinks below a mark that moves",
        file: "crates/weir-ir/src/passes/sink.rs",
        text: "*moved != layer",
        instead: "*moved == layer",
        test: PASS_CASES,
    },
    Mutation {
        name: "requires: a check vouches for more than the next one does",
        file: "crates/weir-ir/src/passes/requires.rs",
        text: "&& after(here).implies(&both) {",
        instead: "&& both.implies(&both) {",
        test: PAIRS,
    },
    Mutation {
        name: "conditions: the last case of a range is lost",
        file: "crates/weir-ir/src/passes/conditions.rs",
        text: "cases.retain(|(c, _)| (range.lo..=range.hi).contains(c));",
        instead: "cases.retain(|(c, _)| (range.lo..range.hi).contains(c));",
        test: PASSES,
    },
    Mutation {
        name: "positions: a loop moves nothing by pushing",
        file: "crates/weir-ir/src/passes/positions.rs",
        text: "matches!(block.end, End::Push { .. } | End::Unpull { .. })",
        instead: "matches!(block.end, End::Unpull { .. })",
        test: PASSES,
    },
    Mutation {
        name: "a parted path comes back to values that it does not have",
        file: "crates/weir-ir/src/passes/paths.rs",
        text: "blocks[0] == at && blocks[1..].iter().all(closed)",
        instead: "blocks[0] == at && blocks.iter().skip(blocks.len()).all(closed)",
        test: PASS_CASES,
    },
    Mutation {
        name: "arithmetic: a shift by the width",
        file: "crates/weir-jit/src/translate/arith.rs",
        text: "icmp(IntCC::UnsignedLessThan, y, bits)",
        instead: "icmp(IntCC::UnsignedLessThanOrEqual, y, bits)",
        test: JIT,
    },
    Mutation {
        name: "eBPF: what is needed behind an operation keeps its place",
        file: "crates/weir-ebpf/src/places.rs",
        text: "behind.push(live.clone());",
        instead: "behind.push(Places::empty(program));",
        test: EBPF,
    },
    Mutation {
        name: "compiled hash of a key of two words",
        file: "crates/weir-jit/src/translate/tables.rs",
        text: "pair.get(1).map_or(odd, |&b| code.b.ins().bxor(b, odd));",
        instead: "pair.get(1).map_or(odd, |&b| b);",
        test: JIT,
    },
    Mutation {
        name: "compiled touch of an entry that never expires",
        file: "crates/weir-jit/src/translate/entries.rs",
        text: "let earlier = self.code.b.ins().icmp(IntCC::UnsignedLessThan, own, when);",
        instead: "let earlier = self.code.b.ins().icmp(IntCC::NotEqual, own, when);",
        test: JIT,
    },
    Mutation {
        name: "tables: an entry that lasts long enough gets more time",
        file: "crates/weir-table/src/set.rs",
        text: "if own > now && (when..=latest).contains(&own) {",
        instead: "if own > now && (when + 1..=latest).contains(&own) {",
        test: TABLE_TIMES,
    },
    Mutation {
        name: "tables: times in a small table are not exact",
        file: "crates/weir-table/src/set.rs",
        text: "let exact = own <= now || self.table(e.table).len() <= WINDOW;",
        instead: "let exact = own <= now;",
        test: TABLE_MODEL,
    },
    Mutation {
        name: "compiled touch of an entry of a small table",
        file: "crates/weir-jit/src/translate/entries.rs",
        text: "icmp_imm_u(IntCC::UnsignedGreaterThan, live, i64::from(WINDOW))",
        instead: "icmp_imm_u(IntCC::UnsignedGreaterThan, live, 0)",
        test: JIT,
    },
    Mutation {
        name: "tables: a touched entry has no timer once it fired",
        file: "crates/weir-table/src/set.rs",
        text: "} else if expires != 0 {",
        instead: "} else if expires == 0 {",
        test: TABLE_MODEL,
    },
    Mutation {
        name: "a batch goes on before the packets that it started",
        file: "crates/weir-jit/src/translate/batch.rs",
        text: "self.frame.end.set(&mut self.b, before_all);",
        instead: "_ = before_all;",
        test: JIT,
    },
    Mutation {
        name: "compiled path of a new key: a batch goes on before the packets that it started",
        file: "crates/weir-jit/src/translate/slow_path.rs",
        text: "Kept::there(batch_end, 0)",
        instead: "Kept::there(at, OUTCOME as usize)",
        test: JIT,
    },
    Mutation {
        name: "compiled path of a new key: layers are where they were",
        file: "crates/weir-jit/src/translate/slow_path.rs",
        text: "if !path.keeps_places {",
        instead: "if path.exits.is_empty() {",
        test: JIT,
    },
    Mutation {
        name: "compiled positions where paths meet are those of the first",
        file: "crates/weir-jit/src/translate/packet.rs",
        text: "_ => KnownPosition::Merged,",
        instead: "(k, _) => k,",
        test: JIT,
    },
    Mutation {
        name: "compiled change of a checksum forgets the borrow",
        file: "crates/weir-jit/src/translate/network.rs",
        text: "let less = self.b.ins().iadd(less, borrow);",
        instead: "_ = borrow;",
        test: JIT,
    },
    Mutation {
        name: "compiled push takes pulled bytes of which there are too few",
        file: "crates/weir-jit/src/translate/here.rs",
        text: "|facts| facts.headroom() >= n",
        instead: "|facts| facts.headroom() + 9 >= n",
        test: JIT,
    },
    Mutation {
        name: "compiled search by prefix: the row of the next slot",
        file: "crates/weir-jit/src/translate/prefixes.rs",
        text: "self.code.b.ins().iadd_imm_s(behind, -(self.known.uses.layout(table).stride as i64))",
        instead: "behind",
        test: LARGE,
    },
    Mutation {
        name: "compiled search of ranges at their first key",
        file: "crates/weir-jit/src/translate/prefixes.rs",
        text: "icmp(IntCC::UnsignedLessThanOrEqual, starts, addrs)",
        instead: "icmp(IntCC::UnsignedLessThan, starts, addrs)",
        test: LARGE,
    },
    Mutation {
        name: "compiled search by prefix: half of an array",
        file: "crates/weir-jit/src/translate/prefixes.rs",
        text: "band_imm_u(byte, 0xff)",
        instead: "band_imm_u(byte, 0x7f)",
        test: LARGE,
    },
    Mutation {
        name: "compiled branch: one of two conditions is enough",
        file: "crates/weir-jit/src/translate/ends.rs",
        text: "BinOp::And => self.branch_by_parts(a, &next, other, most - 1),",
        instead: "BinOp::And => self.branch_by_parts(a, then, &next, most - 1),",
        test: JIT,
    },
    Mutation {
        name: "what is pushed keeps old bytes that nothing writes",
        file: "crates/weir-jit/src/translate/here.rs",
        text: "written[..n as usize].iter().all(|&w| w)",
        instead: "written[..n as usize].iter().any(|&w| w)",
        test: JIT,
    },
    Mutation {
        name: "a cell is read once a batch though programs write it",
        file: "crates/weir-jit/src/translate/entries.rs",
        text: "let stays = is_cell && !self.known.uses.written[table.0 as usize];",
        instead: "let stays = is_cell;",
        test: JIT,
    },
    Mutation {
        name: "compiled checksum of zeros is all ones",
        file: "crates/weir-jit/src/translate/arith.rs",
        text: "let less = code.b.ins().iadd_imm_s(quotient, -1);",
        instead: "let less = quotient;",
        test: JIT,
    },
    Mutation {
        name: "a path that crosses to another lane keeps its number",
        file: "crates/weir-jit/src/translate/lanes.rs",
        text: "is_some_and(|(f, l)| f == group.fork && l != lane)",
        instead: "is_some_and(|(f, l)| f == group.fork && l == usize::MAX - lane)",
        test: JIT,
    },
    Mutation {
        name: "a buffer's next packet does not know that annotations were written",
        file: "crates/weir-jit/src/translate/layers.rs",
        text: "if from < Meta::REST_OFFSET && self.places[SAID_DIRTY] == KnownPosition::Unknown {",
        instead: "if from < Meta::REST_OFFSET && self.places[SAID_DIRTY] != KnownPosition::Unknown {",
        test: JIT,
    },
    Mutation {
        name: "a position in a register outlives its change",
        file: "crates/weir-jit/src/translate/layers.rs",
        text: "if code.is_settled() { KnownPosition::Is(v) } else { KnownPosition::Unknown };",
        instead: "self.places.get(off / 4).copied().unwrap_or(KnownPosition::Is(v));",
        test: JIT,
    },
    Mutation {
        name: "flows: an entry outlives a change of its table",
        file: "crates/weir-jit/src/flows/cache.rs",
        text: "is_same &= *seen == new;",
        instead: "is_same &= seen.0 == new.0;",
        test: FLOWS,
    },
    Mutation {
        name: "flows: the first word of a key is not compared",
        file: "crates/weir-jit/src/translate/flow_lookup.rs",
        text: "differs = self.b.ins().bor(differs, x);",
        instead: "differs = if i == 0 { differs } else { self.b.ins().bor(differs, x) };",
        test: FLOWS,
    },
    Mutation {
        name: "a rule that is compared alone hides a better one of the tuple",
        file: "crates/weir-jit/src/translate/rules.rs",
        text: "code.b.ins().umin(head, best)",
        instead: "code.b.ins().umax(head, head)",
        test: JIT_RULES,
    },
    Mutation {
        name: "frames: what a block makes stands where its dominators put theirs",
        file: "crates/weir-ir/src/frame.rs",
        text: "            free.push(next);\n",
        instead: "            free.push(next / 2);\n",
        test: FRAMES,
    },
];
