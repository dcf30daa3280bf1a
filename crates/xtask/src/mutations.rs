//! Mistakes that a test must notice, each with that test.

/// A mistake made on purpose.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// What it breaks.
    pub(crate) name: &'static str,
    /// The file, from the root.
    pub(crate) file: &'static str,
    /// A text that stands in the file once, and what replaces it.
    pub(crate) text: &'static str,
    pub(crate) instead: &'static str,
    /// The test that fails.
    pub(crate) test: Test,
}

/// Some tests of one test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) package: &'static str,
    /// Name of the integration test; `None` is the library's own tests.
    pub(crate) target: Option<&'static str>,
    /// Part of the names of the tests.
    pub(crate) filter: &'static str,
}

const TABLE_MODEL: Test = Test { package: "weir-table", target: Some("model"), filter: "" };
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
const FLOWS: Test =
    Test { package: "weir-jit", target: Some("pairs"), filter: "flows_mean_the_same_while_tables_change" };

const VERIFY_RANGES: Test = Test { package: "weir-verify", target: None, filter: "ranges::" };
const VERIFY_SETS: Test = Test { package: "weir-verify", target: None, filter: "set::" };
const VERIFY_FACTS: Test = Test { package: "weir-verify", target: None, filter: "facts::" };
const VERIFY_COVER: Test = Test { package: "weir-verify", target: Some("cover"), filter: "" };
const FRAMES: Test = Test { package: "weir-ir", target: Some("frames"), filter: "" };
const VERIFY_MERGE: Test = Test { package: "weir-verify", target: None, filter: "merge::" };
const VERIFY_CHECKS: Test = Test { package: "weir-verify", target: Some("checks"), filter: "" };
const VERIFY_SECURITY: Test = Test { package: "weir-verify", target: Some("security"), filter: "" };
const VERIFY_SOLVED: Test = Test { package: "weir-verify", target: Some("solved"), filter: "" };
const VERIFY_PROGRAMS: Test = Test {
    package: "weir-verify",
    target: Some("networks"),
    filter: "programs_with_declared_tables_do_what_their_ways_say",
};
const VERIFY_FATES: Test = Test { package: "weir-verify", target: None, filter: "fates::" };
const VERIFY_LOSSES: Test = Test {
    package: "weir-verify",
    target: Some("networks"),
    filter: "ways_that_are_not_followed_where_nobody_looks_at_losses_are_only_losses",
};

/// All of them, those of a package together.
pub(crate) const MUTATIONS: &[Mutation] = &[
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
        file: "crates/weir-table/src/lpm/dir24.rs",
        text: "next = u64::from(last(inner, inner_len)) + 1;",
        instead: "next = u64::from(last(inner, inner_len));",
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
        name: "a parted way comes back to values that it does not have",
        file: "crates/weir-ir/src/passes/ways.rs",
        text: "blocks[0] == at && blocks[1..].iter().all(closed)",
        instead: "blocks[0] == at && blocks.iter().skip(blocks.len()).all(closed)",
        test: PASS_CASES,
    },
    Mutation {
        name: "arithmetic: a shift by the width",
        file: "crates/weir-jit/src/arith.rs",
        text: "icmp(IntCC::UnsignedLessThan, y, bits)",
        instead: "icmp(IntCC::UnsignedLessThanOrEqual, y, bits)",
        test: JIT,
    },
    Mutation {
        name: "compiled hash of a key of two words",
        file: "crates/weir-jit/src/tables.rs",
        text: "pair.get(1).map_or(odd, |&b| self.b.ins().bxor(b, odd));",
        instead: "pair.get(1).map_or(odd, |&b| b);",
        test: JIT,
    },
    Mutation {
        name: "compiled touch of an entry that never expires",
        file: "crates/weir-jit/src/tables.rs",
        text: "let before = self.b.ins().iadd_imm_s(time, -1);",
        instead: "let before = time;",
        test: JIT,
    },
    Mutation {
        name: "a batch goes on before the packets that it started",
        file: "crates/weir-jit/src/batch.rs",
        text: "self.b.ins().brif(pending, done, &[], head, &[BlockArg::Value(next)]);",
        instead: "let _ = pending;\n            self.b.ins().jump(head, &[BlockArg::Value(next)]);",
        test: JIT,
    },
    Mutation {
        name: "compiled search of ranges at their first key",
        file: "crates/weir-jit/src/tables.rs",
        text: "icmp(IntCC::UnsignedLessThanOrEqual, starts, addrs)",
        instead: "icmp(IntCC::UnsignedLessThan, starts, addrs)",
        test: LARGE,
    },
    Mutation {
        name: "compiled DIR-24-8: half of a group",
        file: "crates/weir-jit/src/tables.rs",
        text: "band_imm_u(low, 0xff)",
        instead: "band_imm_u(low, 0x7f)",
        test: LARGE,
    },
    Mutation {
        name: "what is pushed keeps old bytes that nothing writes",
        file: "crates/weir-jit/src/ends.rs",
        text: "written[..n as usize].iter().all(|&w| w)",
        instead: "written[..n as usize].iter().any(|&w| w)",
        test: JIT,
    },
    Mutation {
        name: "a cell is read once a batch though programs write it",
        file: "crates/weir-jit/src/tables.rs",
        text: "let stays = is_cell && !self.written[table.0 as usize];",
        instead: "let stays = is_cell;",
        test: JIT,
    },
    Mutation {
        name: "compiled checksum of zeros is all ones",
        file: "crates/weir-jit/src/arith.rs",
        text: "let less = self.b.ins().iadd_imm_s(quotient, -1);",
        instead: "let less = quotient;",
        test: JIT,
    },
    Mutation {
        name: "a way that crosses to another lane keeps its number",
        file: "crates/weir-jit/src/merged.rs",
        text: "is_some_and(|(f, l)| f == group.fork && l != lane)",
        instead: "is_some_and(|(f, l)| f == group.fork && l == usize::MAX - lane)",
        test: JIT,
    },
    Mutation {
        name: "a position in a register outlives its change",
        file: "crates/weir-jit/src/ops.rs",
        text: "let known = self.is_settled().then_some(v);",
        instead: "let known = self.places.get(off / 4).copied().flatten();",
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
        file: "crates/weir-jit/src/flows/code.rs",
        text: "differs = self.b.ins().bor(differs, x);",
        instead: "differs = if i == 0 { differs } else { self.b.ins().bor(differs, x) };",
        test: FLOWS,
    },
    Mutation {
        name: "a rule that is compared alone hides a better one of the tuple",
        file: "crates/weir-jit/src/rules.rs",
        text: "self.b.ins().umin(head, best)",
        instead: "self.b.ins().umax(head, head)",
        test: JIT_RULES,
    },
    Mutation {
        name: "facts: a comparison that is turned over",
        file: "crates/weir-verify/src/facts/orders.rs",
        text: "let flipped = if holds == LESS { GREATER } else { EQUAL };",
        instead: "let flipped = holds;",
        test: VERIFY_FACTS,
    },
    Mutation {
        name: "facts: a prefix ends at its first number",
        file: "crates/weir-verify/src/facts/images.rs",
        text: "let hi = (hi & c) | low;",
        instead: "let hi = hi & c;",
        test: VERIFY_FACTS,
    },
    Mutation {
        name: "sets: what is not in one meets what is",
        file: "crates/weir-verify/src/set.rs",
        text: "out.push((n, lo - 1));",
        instead: "out.push((n, lo));",
        test: VERIFY_SETS,
    },
    Mutation {
        name: "ranges: half of a prefix",
        file: "crates/weir-verify/src/ranges.rs",
        text: "let low = max.checked_shr(len).unwrap_or(0);",
        instead: "let low = max.checked_shr(len).unwrap_or(0) >> 1;",
        test: VERIFY_RANGES,
    },
    Mutation {
        name: "ranges: a key of two prefixes",
        file: "crates/weir-verify/src/ranges.rs",
        text: "tell(&open, next, before);",
        instead: "tell(&open, next, before + 1);",
        test: VERIFY_RANGES,
    },
    Mutation {
        name: "sums: the wrong modulus",
        file: "crates/weir-verify/src/sums.rs",
        text: "const MODULUS: u32 = 65_535;",
        instead: "const MODULUS: u32 = 65_536;",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "joints: what may be behind one is looked at in front of it",
        file: "crates/weir-verify/src/behind.rs",
        text: "end <= base + lo as i64",
        instead: "end <= base + lo as i64 + 64",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "packets: a shorter one reaches as far as it did",
        file: "crates/weir-verify/src/ops.rs",
        text: "(p.end, p.found.reached) = ((len, p.data), i64::MIN);",
        instead: "p.end = (len, p.data);",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "packets: a longer one is as short as it was",
        file: "crates/weir-verify/src/ends.rs",
        text: "(p.end.1, p.found.short_of) = (p.end.1 + i64::from(n), i64::MAX);",
        instead: "p.end.1 += i64::from(n);",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "frames: what a block makes stands where its dominators put theirs",
        file: "crates/weir-ir/src/frame.rs",
        text: "            free.push(next);\n",
        instead: "            free.push(next / 2);\n",
        test: FRAMES,
    },
    Mutation {
        name: "packets: what was found out outlives what it followed from",
        file: "crates/weir-verify/src/merge.rs",
        text: "        st.forget_found();\n",
        instead: "",
        test: VERIFY_MERGE,
    },
    Mutation {
        name: "facts: numbers shifted to the left came from one more",
        file: "crates/weir-verify/src/facts/images.rs",
        text: "u128::from(lo & low != 0), hi >> s);",
        instead: "u128::from(lo & low != 0), (hi >> s) + 1);",
        test: VERIFY_FACTS,
    },
    Mutation {
        name: "tables: nobody else makes entries",
        file: "crates/weir-verify/src/tables.rs",
        text: "self.missed |= info.grows;",
        instead: "self.missed |= info.grows && info.open;",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "tables: an entry that was there before is not noticed",
        file: "crates/weir-verify/src/tables.rs",
        text: "st.used_past |= i < st.past;",
        instead: "st.used_past |= i < st.past && st.past == 0;",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "histories: none is tried",
        file: "crates/weir-verify/src/checks/histories.rs",
        text: "const ROUNDS: usize = 3;",
        instead: "const ROUNDS: usize = 0;",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "replay: without the random numbers",
        file: "crates/weir-verify/src/replay.rs",
        text: "randoms: input.randoms.clone(),",
        instead: "randoms: Vec::new(),",
        test: VERIFY_PROGRAMS,
    },
    Mutation {
        name: "replay: with another hash seed",
        file: "crates/weir-verify/src/replay.rs",
        text: "hash_seed: input.hash_seed,",
        instead: "hash_seed: 0,",
        test: VERIFY_SOLVED,
    },
    Mutation {
        name: "can: what does not match on arrival",
        file: "crates/weir-verify/src/checks/can.rs",
        text: "q.search(c, arrival, Shows::Matching)",
        instead: "q.search(c, arrival, Shows::Other)",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "only: what matches on arrival",
        file: "crates/weir-verify/src/checks/only.rs",
        text: "q.search(c, arrival, Shows::Other)",
        instead: "q.search(c, arrival, Shows::Matching)",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "never: of all packets",
        file: "crates/weir-verify/src/checks/never.rs",
        text: "c.seek_arrivals(q, Some(&q.filter), (&watched",
        instead: "c.seek_arrivals(q, None, (&watched",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "all: a full table does not count where it should",
        file: "crates/weir-verify/src/checks/all.rs",
        text: "if arrived || (lost && !strict) {",
        instead: "if arrived || lost {",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "all: there is always room in a queue",
        file: "crates/weir-verify/src/checks/all.rs",
        text: "any(|&room| room || !strict)",
        instead: "any(|&room| room || !strict || strict)",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "invariant: a payload that was written to",
        file: "crates/weir-verify/src/checks/invariant.rs",
        text: "if a != b || written || !same_source",
        instead: "if a != b || !same_source",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "return: from anybody",
        file: "crates/weir-verify/src/checks/returns.rs",
        text: "(layout.src, layout.dst, layout.address),",
        instead: "(layout.dst, layout.src, layout.address),",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "noloops: the time to live makes a difference",
        file: "crates/weir-verify/src/packet.rs",
        text: "![7, 8, 10, 11].contains(&(at - net))",
        instead: "![7, 10, 11].contains(&(at - net))",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "security: destinations are not looked at",
        file: "crates/weir-verify/src/checks/security.rs",
        text: "(Rule::Destination, &self.rules.send_to, false)",
        instead: "(Rule::Destination, &self.rules.send_from, true)",
        test: VERIFY_SECURITY,
    },
    Mutation {
        name: "security: nothing came before",
        file: "crates/weir-verify/src/checks/security.rs",
        text: "before.is_blank() || a.story.used_past()",
        instead: "before.is_blank() && !a.story.used_past()",
        test: VERIFY_SECURITY,
    },
    Mutation {
        name: "merge: a path that meets another ends, whatever it assumes",
        file: "crates/weir-verify/src/merge.rs",
        text: "if common == before.conditions.len() {",
        instead: "if common <= before.conditions.len() {",
        test: VERIFY_CHECKS,
    },
    Mutation {
        name: "cover: a way stands for another whatever it assumes",
        file: "crates/weir-verify/src/facts.rs",
        text: "if !aside(*c) && !self.holds(x, *c) {",
        instead: "if !aside(*c) && self.truth(x, *c) == Some(false) {",
        test: VERIFY_COVER,
    },
    Mutation {
        name: "cover: what was drawn is left aside though the packet holds it",
        file: "crates/weir-verify/src/cover.rs",
        text: "!alike.drawn && drawn.draws_again",
        instead: "drawn.draws_again",
        test: VERIFY_COVER,
    },
    Mutation {
        name: "cover: an annotation that is written over on one way counts on none",
        file: "crates/weir-verify/src/cover.rs",
        text: ".reduce(|a, b| a & b)",
        instead: ".reduce(|a, b| a | b)",
        test: VERIFY_COVER,
    },
    Mutation {
        name: "fates: what made an entry left nothing behind",
        file: "crates/weir-verify/src/fates.rs",
        text: "End::Meter { .. } | End::Hold { .. } => LASTS,",
        instead: "End::Meter { .. } | End::Hold { .. } => 0,",
        test: VERIFY_FATES,
    },
    Mutation {
        name: "losses: a packet that is lost takes those that wait for their turn with it",
        file: "crates/weir-verify/src/explore.rs",
        text: "st.strands.is_empty()\n            && match self.course.interest",
        instead: "true\n            && match self.course.interest",
        test: VERIFY_LOSSES,
    },
    Mutation {
        name: "losses: what was made is lost with the packet that made it",
        file: "crates/weir-verify/src/explore.rs",
        text: "Interest::Entries => !st.entries.iter().skip(st.past).any(is_made),",
        instead: "Interest::Entries => !st.entries.iter().take(0).any(is_made),",
        test: VERIFY_LOSSES,
    },
];
