//! What modules have taken, counted up from what nodes say. Pure: the time is a parameter.
//!
//! A node counts since its data plane began, and a function since it was started. An account has what was counted last, and adds what came since; where counts
//! are lower than before, or of another process, they began anew.

use serde::{Deserialize, Serialize};
use weir_api::accounting::AccountingRecord;
use weir_api::usage::{ElementUsage, FunctionUsage, GraphUsage};

use super::{Kept, id};

/// The function that all traffic of a request passes.
const MODULES: &str = "modules";

/// The account of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The request's number.
    pub number: u64,
    /// The module's number in the request.
    module: usize,
    /// The function of its own that it is, if it is one.
    function: Option<String>,
    /// What it has taken. When it ended is said elsewhere.
    pub record: AccountingRecord,
    /// What was counted last.
    last: Counts,
}

/// The counters of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    process: String,
    plane_cpu: u64,
    plane_cycles: u64,
    cycles: u64,
    cpu: u64,
    into: ElementUsage,
    out: ElementUsage,
}

/// The accounts of a request that begins.
pub fn begin(number: u64, kept: &Kept, now: u64) -> Vec<Account> {
    let mut sandboxes = 0;
    let account = |(module, m): (usize, &weir_api::requests::ModuleAddress)| {
        let function = m.sandbox.as_ref().map(|_| {
            sandboxes += 1;
            format!("sandbox-{sandboxes}")
        });
        let began = if kept.since == 0 { now } else { kept.since };
        let record = AccountingRecord {
            request: id(number),
            module: m.name.clone(),
            tenant: kept.answer.tenant.clone(),
            node: kept.answer.node.clone(),
            kind: m.sandbox.clone().unwrap_or_else(|| "click".into()),
            began,
            counted: began,
            ..AccountingRecord::default()
        };
        Account { number, module, function, record, last: Counts::default() }
    };
    kept.answer.modules.iter().enumerate().map(account).collect()
}

impl Account {
    /// Adds what was counted since.
    pub fn add(&mut self, usage: &GraphUsage, now: u64) {
        if usage.functions.is_empty() {
            // It sleeps, and takes nothing. What it counted is with its state, and goes on from there.
            self.record.memory = 0;
            self.record.counted = now.max(self.record.counted);
            return;
        }
        let (counts, memory) = self.counts(usage);
        let last = &self.last;
        let same = last.process == counts.process;
        let since = |now: u64, before: u64| if same && now >= before { now - before } else { now };
        let r = &mut self.record;
        r.packets_in += since(counts.into.packets, last.into.packets);
        r.bytes_in += since(counts.into.bytes, last.into.bytes);
        r.packets_out += since(counts.out.packets, last.out.packets);
        r.bytes_out += since(counts.out.bytes, last.out.bytes);
        r.cpu += match &self.function {
            Some(_) if counts.cpu >= last.cpu => counts.cpu - last.cpu,
            Some(_) => counts.cpu,
            None => {
                let plane = since(counts.plane_cpu, last.plane_cpu);
                let all = since(counts.plane_cycles, last.plane_cycles);
                let own = since(counts.cycles, last.cycles).min(all);
                let share = u128::from(plane) * u128::from(own) / u128::from(all.max(1));
                u64::try_from(share).unwrap_or(plane)
            }
        };
        let passed = now.saturating_sub(r.counted);
        r.memory = memory;
        r.memory_seconds = r.memory_seconds.saturating_add(memory.saturating_mul(passed));
        r.counted = now.max(r.counted);
        self.last = counts;
    }

    /// What a node says of the module.
    fn counts(&self, usage: &GraphUsage) -> (Counts, u64) {
        let none = FunctionUsage::default();
        let elements = &usage.functions.get(MODULES).unwrap_or(&none).elements;
        let named = |end: &str| elements.get(&format!("n{}{end}", self.module)).copied().unwrap_or_default();
        let mut counts = Counts {
            process: usage.plane.process.clone(),
            plane_cpu: usage.plane.cpu,
            plane_cycles: usage.plane.cycles,
            into: named("in"),
            out: named("out"),
            ..Counts::default()
        };
        if let Some(function) = &self.function {
            let own = usage.functions.get(function).unwrap_or(&none);
            counts.cpu = own.cpu.unwrap_or_default();
            return (counts, own.memory.unwrap_or_default());
        }
        let prefix = format!("m{}e", self.module);
        let own = || elements.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, e)| e);
        counts.cycles = own().map(|e| e.cycles).sum();
        let memory = own().map(|e| e.memory).sum();
        (counts, memory)
    }

    /// The record, of a module that ended at a time, or has not.
    pub fn record(self, ended: Option<u64>, now: u64) -> AccountingRecord {
        let until = ended.unwrap_or(now);
        AccountingRecord { ended, seconds: until.saturating_sub(self.record.began), ..self.record }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_api::requests::{ModuleAddress, RequestAnswer};
    use weir_api::usage::PlaneUsage;

    use super::*;
    use crate::requests::offer::Access;

    fn kept() -> Kept {
        let module = |name: &str, sandbox: Option<&str>| ModuleAddress {
            ports: None,
            protocols: None,
            name_in_dns: None,
            name: name.into(),
            address: "10.0.0.9".into(),
            sandbox: sandbox.map(str::to_owned),
            enforcer: None,
        };
        let answer = RequestAnswer {
            id: None,
            tenant: Some("acme".into()),
            node: "n1".into(),
            until: None,
            modules: vec![module("a", None), module("b", Some("process"))],
            findings: Vec::new(),
        };
        let access = Access { if_name: "lan".into(), vlan: None, share: None };
        Kept { answer, request: String::new(), access, since: 100 }
    }

    /// What a node says: packets to the first module and cycles of it, and what the second one took.
    fn usage(process: &str, packets: u64, cycles: u64, cpu: u64) -> GraphUsage {
        let counter = ElementUsage { packets, bytes: 10 * packets, ..ElementUsage::default() };
        let work = ElementUsage { cycles, memory: 64, ..ElementUsage::default() };
        let elements = [("n0in", counter), ("n0out", counter), ("n1in", counter), ("m0e1", work)];
        let elements = elements.map(|(name, e)| (name.to_owned(), e)).into();
        let modules = FunctionUsage { elements, ..FunctionUsage::default() };
        let own = FunctionUsage { cpu: Some(cpu), memory: Some(1000), ..FunctionUsage::default() };
        GraphUsage {
            plane: PlaneUsage { process: process.into(), cpu: 2 * cycles, cycles: 2 * cycles },
            functions: [("modules".into(), modules), ("sandbox-1".into(), own)].into(),
            ..GraphUsage::default()
        }
    }

    #[test]
    fn counts_that_begin_anew_are_added() {
        let mut accounts = begin(7, &kept(), 103);
        for (at, process, packets, cycles, cpu) in
            [(110, "1@a", 5, 40, 7), (120, "1@a", 9, 60, 9), (130, "2@b", 2, 10, 1), (140, "2@b", 3, 10, 4)]
        {
            accounts.iter_mut().for_each(|a| a.add(&usage(process, packets, cycles, cpu), at));
        }
        let [a, b] = &accounts[..] else { panic!("{accounts:?}") };
        let a = a.clone().record(None, 141);
        assert_eq!((a.request.as_str(), a.module.as_str(), a.began, a.seconds), ("request-7", "a", 100, 41));
        assert_eq!((a.packets_in, a.bytes_in, a.packets_out), (12, 120, 12));
        // Half of the cycles, and so half of the time.
        assert_eq!((a.cpu, a.memory, a.memory_seconds), (60 + 10, 64, 64 * 40));
        let b = b.clone().record(Some(139), 141);
        assert_eq!(
            (b.packets_in, b.packets_out, b.cpu, b.memory, b.kind.as_str()),
            (12, 0, 13, 1000, "process")
        );
        assert_eq!((b.ended, b.seconds), (Some(139), 39));
    }

    proptest! {
        /// However often it is asked, and whatever ends in between: all that was counted at the ends is counted.
        #[test]
        fn nothing_is_counted_twice(lives in proptest::collection::vec(proptest::collection::vec(0_u64..50, 1..6), 1..6)) {
            let mut account = begin(1, &kept(), 100).remove(0);
            let mut all = 0;
            for (i, life) in lives.iter().enumerate() {
                let mut packets = 0;
                for more in life {
                    packets += more;
                    account.add(&usage(&format!("{i}@x"), packets, packets, 0), 100);
                }
                all += packets;
            }
            prop_assert_eq!(account.record.packets_in, all);
            prop_assert!(account.record.cpu <= 2 * all);
        }
    }
}
