//! Virtual machines, run by QEMU (COMPOSER paper, section 6.1: KVM/QEMU).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::native::cpu;
use crate::doc::{At, Reader, did_you_mean};
use crate::error::quote;
use crate::value::Size;

/// What a guest has without a word of its image.
const MEMORY: u64 = 256 << 20;
/// The least and the most that it may have.
const MEMORIES: [u64; 2] = [32 << 20, 1 << 40];
/// Bytes for QEMU itself, beside the guest's.
const OTHER_MEMORY: u64 = 256 << 20;
const MAX_PROCESSORS: u32 = 64;

/// A virtual machine: what it runs, and how. Files stand beside this document, in its folder. In `arguments`, `$NAME` or `${NAME}` stands
/// for the value of a parameter, and `$$` for `$`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Vm {
    /// The kernel, started without a boot loader. Without it the machine starts from its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The kernel's first file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initrd: Option<String>,
    /// The kernel's command line. Its console is `ttyS0`: what it prints there is the function's output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// The image of a disk, raw or qcow2. What the guest writes to it is gone when the machine ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The guest's memory, in bytes: a number with kB, MB or GB (powers of 1,024).
    #[schemars(with = "String", default = "memory")]
    pub memory: u64,
    /// The guest's processors.
    #[schemars(default = "processors")]
    pub processors: u32,
    /// What runs its instructions.
    #[serde(default)]
    pub accelerator: Accelerator,
    /// How its network cards meet the switch.
    #[serde(default, skip_serializing_if = "VmPorts::is_default")]
    pub ports: VmPorts,
    /// Most processor time, in thousandths of a processor; all, if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

/// The accelerator that runs the instructions of a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The processor if it can (KVM), else QEMU.
    #[default]
    Auto,
    /// The processor.
    Kvm,
    /// QEMU, in software: some ten times slower.
    Tcg,
}

/// How network cards of a guest meet the switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VmPorts {
    /// By memory: the data plane reads and writes that of the guest.
    #[default]
    VhostUser,
    /// By interfaces of the kernel (TAP): nobody else sees the guest's memory, and each packet crosses the kernel.
    Tap,
}

impl VmPorts {
    fn is_default(&self) -> bool {
        *self == VmPorts::default()
    }
}

impl Vm {
    /// Most bytes of the machine with QEMU.
    pub fn whole_memory(&self) -> u64 {
        self.memory + OTHER_MEMORY
    }
}

fn memory() -> String {
    format!("{} MB", MEMORY >> 20)
}

fn processors() -> u32 {
    1
}

pub(super) fn vm(r: &mut Reader, at: &At<'_>) -> Option<Vm> {
    let known =
        ["kernel", "initrd", "arguments", "disk", "memory", "processors", "accelerator", "ports", "cpu"];
    let f = r.fields(at, &known)?;
    let mut file = |field: &str| {
        let at = f.get(field)?;
        let text = r.text(&at, "a file of the image's folder")?;
        let plain = text.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        // QEMU takes a comma for the end of a file's name.
        if !plain || text.contains(',') {
            r.error(&at, format!("{} is no file of the image's folder", quote(text)), "write its name alone");
        }
        Some(text.to_owned())
    };
    let (kernel, initrd, disk) = (file("kernel"), file("initrd"), file("disk"));
    let mut vm = Vm {
        kernel,
        initrd,
        arguments: String::new(),
        disk,
        memory: MEMORY,
        processors: 1,
        accelerator: Accelerator::Auto,
        ports: VmPorts::VhostUser,
        cpu: None,
    };
    if vm.kernel.is_none() {
        if vm.disk.is_none() {
            r.error(at, "there is nothing to start", "give \"kernel\" or \"disk\"");
        }
        for field in ["initrd", "arguments"] {
            if let Some(at) = f.get(field) {
                r.error(
                    &at,
                    format!("{} goes with a kernel", quote(field)),
                    "give \"kernel\", or leave it out",
                );
            }
        }
    }
    if let Some(at) = f.get("arguments") {
        vm.arguments = r.text(&at, "the kernel's command line")?.to_owned();
    }
    if let Some(at) = f.get("memory") {
        let size = r.parse::<Size>(&at, "a number with kB, MB or GB")?.bytes();
        if !(MEMORIES[0]..=MEMORIES[1]).contains(&size) || size % (1 << 20) != 0 {
            let what = format!("{} is no memory of a machine", quote(at.node.text().unwrap_or_default()));
            r.error(&at, what, "write whole megabytes from 32 MB on, such as 256 MB");
        }
        vm.memory = size;
    }
    if let Some(at) = f.get("processors") {
        vm.processors = r.number(&at, "processors", 1, MAX_PROCESSORS)?;
    }
    if let Some(at) = f.get("accelerator") {
        vm.accelerator = match r.text(&at, "auto, kvm or tcg")? {
            "auto" => Accelerator::Auto,
            "kvm" => Accelerator::Kvm,
            "tcg" => Accelerator::Tcg,
            other => {
                let known = ["auto", "kvm", "tcg"];
                r.error(&at, format!("{} is no accelerator", quote(other)), did_you_mean(other, &known));
                return None;
            }
        };
    }
    if let Some(at) = f.get("ports") {
        vm.ports = match r.text(&at, "vhost-user or tap")? {
            "vhost-user" => VmPorts::VhostUser,
            "tap" => VmPorts::Tap,
            other => {
                let what = format!("{} is no kind of ports", quote(other));
                r.error(&at, what, did_you_mean(other, &["vhost-user", "tap"]));
                return None;
            }
        };
    }
    vm.cpu = cpu(r, &f)?;
    Some(vm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Implementation, Template};

    fn parse(text: &str) -> Result<Vm, String> {
        let text = format!("name: f\nkind: vm\nports: [a]\n{text}");
        match Template::parse(&text).map_err(|e| e.to_string())?.implementation {
            Implementation::Vm { vm } => Ok(vm),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn it_is_a_kernel_or_a_disk_with_limits() {
        let v = parse(
            "vm: {kernel: vmlinuz, initrd: boot/initrd.gz, arguments: console=ttyS0, memory: 128 MB, processors: 2, accelerator: tcg, cpu: 500}",
        );
        let v = v.unwrap();
        assert_eq!((v.kernel.as_deref(), v.initrd.as_deref()), (Some("vmlinuz"), Some("boot/initrd.gz")));
        assert_eq!(
            (v.memory, v.processors, v.accelerator, v.cpu),
            (128 << 20, 2, Accelerator::Tcg, Some(500))
        );
        let v = parse("vm: {disk: a.qcow2}").unwrap();
        assert_eq!((v.accelerator, v.ports), (Accelerator::Auto, VmPorts::VhostUser));
        assert_eq!(parse("vm: {disk: a.qcow2, ports: tap}").unwrap().ports, VmPorts::Tap);
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("", "what runs in the machine"),
            ("vm: {}", "nothing to start"),
            ("vm: {disk: d, arguments: quiet}", "goes with a kernel"),
            ("vm: {kernel: ../vmlinuz}", "image's folder"),
            ("vm: {kernel: /boot/vmlinuz}", "image's folder"),
            ("vm: {disk: 'd,snapshot=off'}", "image's folder"),
            ("vm: {disk: d, memory: 1 MB}", "32 MB"),
            ("vm: {disk: d, memory: 33000 kB}", "whole megabytes"),
            ("vm: {disk: d, processors: 0}", "1 to 64"),
            ("vm: {disk: d, accelerator: kmv}", "kvm"),
            ("vm: {disk: d, ports: tab}", "tap"),
            ("vm: {disk: d}\nhandlers: {a: b.c}", "has no handlers"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
