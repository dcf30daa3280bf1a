//! Memory and processor time: what the machine has, and what graphs may come to take of it.

use serde::{Deserialize, Serialize};

use crate::instance::Spec;

/// An amount of each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// In bytes.
    pub memory: u64,
    /// In thousandths of a processor.
    pub cpu: u64,
}

impl Resources {
    /// More than anything needs.
    pub const UNBOUNDED: Resources = Resources { memory: u64::MAX, cpu: u64::MAX };

    /// What this machine has; what cannot be found out is unbounded.
    pub fn of_machine() -> Resources {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
        let kb = total.and_then(|t| t.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let cpus = std::thread::available_parallelism().map_or(u64::MAX, |n| n.get() as u64 * 1000);
        Resources { memory: kb.map_or(u64::MAX, |kb| kb * 1024), cpu: cpus }
    }

    /// What is left when these needs are met; never less than nothing.
    #[must_use]
    pub fn without(self, needs: Needs) -> Resources {
        Resources {
            memory: self.memory.saturating_sub(needs.memory),
            cpu: self.cpu.saturating_sub(needs.cpu.unwrap_or_default().into()),
        }
    }
}

/// The most that something may come to take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// In bytes.
    pub memory: u64,
    /// In thousandths of a processor. `None`: there is no limit, and it takes what others leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl Needs {
    /// Those of a function that is not inline: its limits.
    pub fn of(spec: &Spec) -> Needs {
        let limits = spec.limits();
        Needs { memory: limits.memory, cpu: limits.cpu }
    }

    /// The larger of both, each by itself.
    #[must_use]
    pub fn or(self, other: Needs) -> Needs {
        Needs { memory: self.memory.max(other.memory), cpu: self.cpu.max(other.cpu) }
    }

    /// Whether nothing of it is more than these.
    pub fn is_within(self, other: Needs) -> bool {
        self.memory <= other.memory && self.cpu.unwrap_or(0) <= other.cpu.unwrap_or(0)
    }

    /// Those of both. What has no limit of processor time is sure of none, and adds nothing.
    #[must_use]
    pub fn and(self, other: Needs) -> Needs {
        let cpu = u64::from(self.cpu.unwrap_or(0)) + u64::from(other.cpu.unwrap_or(0));
        Needs {
            memory: self.memory.saturating_add(other.memory),
            cpu: Some(u32::try_from(cpu).unwrap_or(u32::MAX)),
        }
    }
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    weir_plan::size(bytes)
}
