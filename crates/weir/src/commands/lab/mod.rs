//! `weir lab`: hosts, links, nodes and graphs on one machine, from one file.
//!
//! Machines are network namespaces. What is up is kept in a folder for each lab, so that it can be taken down also if making it
//! was interrupted.

mod document;
mod machine;
mod plan;
mod state;

use std::path::{Path, PathBuf};

use document::Lab;
use machine::{Process, inside, ip, namespace, ourselves, run as run_program, start, wait};
use plan::{Step, WIRE, steps};
use state::{State, labs};

use super::read;
use crate::ui::{Failure, Ui, table};

/// Options of `weir lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    /// Make what a file describes: hosts, links, nodes, and graphs on them
    Up(UpArgs),
    /// Run a program on a machine of a lab, as root there
    ///
    /// Examples:
    ///
    /// weir lab exec client -- curl -s http://10.0.2.2/
    ///
    /// weir lab exec node -- weir ps
    Exec(ExecArgs),
    /// List the labs that are up, and their machines
    Ls,
    /// Remove a lab: its graphs, nodes, programs and machines
    Down(DownArgs),
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// The lab (docs/lab.md)
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct ExecArgs {
    /// Which lab; not needed while one is up
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// A host or a node
    machine: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct DownArgs {
    /// Which lab; not needed while one is up
    name: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    match &args.command {
        LabCommand::Up(a) => up(a, ui),
        LabCommand::Exec(a) => exec(a),
        LabCommand::Ls => list(ui),
        LabCommand::Down(a) => down(&one(a.name.as_deref())?),
    }
}

/// The lab of a name, or the only one.
fn one(name: Option<&str>) -> Result<State, Failure> {
    let mut all = labs()?;
    let names: Vec<String> = all.iter().map(|lab| lab.name.clone()).collect();
    match name {
        Some(name) => {
            let near = weir_model::nearest::nearest(name, names.iter().map(String::as_str));
            let found = all.into_iter().find(|lab| lab.name == name);
            found.ok_or_else(|| {
                Failure::refused(format!("no lab '{name}' is up{near}; weir lab ls lists them"))
            })
        }
        None if all.len() == 1 => Ok(all.remove(0)),
        None if all.is_empty() => Err(Failure::refused("no lab is up; weir lab up FILE makes one")),
        None => Err(Failure::refused(format!("several labs are up, say which: {}", names.join(", ")))),
    }
}

fn up(args: &UpArgs, ui: &Ui) -> Result<(), Failure> {
    let lab = document::parse(&read(&args.file)?).map_err(|wrong| {
        Failure::Refused(wrong.into_iter().map(|w| format!("{}: {w}", args.file.display())).collect())
    })?;
    let beside = args.file.parent().unwrap_or(Path::new("."));
    let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
    for graph in &lab.graphs {
        let file = beside.join(&graph.file);
        if !file.is_file() {
            return Err(Failure::refused(format!(
                "{}: there is no file {}",
                args.file.display(),
                file.display()
            )));
        }
    }
    let mut state = State::begin(&lab.name)?;
    let made = steps(&lab).into_iter().try_for_each(|step| {
        let done = make(&step, &lab, &beside, &mut state);
        state.keep().and(done)
    });
    if let Err(failure) = made {
        // What was there before is there after it.
        down(&state)?;
        return Err(failure);
    }
    let rows: Vec<Vec<String>> = describe(&lab);
    Ok(ui.print(&state, || {
        let name = &lab.name;
        format!(
            "{}\nweir lab exec MACHINE -- PROGRAM runs there; weir lab down {name} removes all\n",
            table(&rows, &[])
        )
    })?)
}

/// A row for each machine.
fn describe(lab: &Lab) -> Vec<Vec<String>> {
    let mut rows = vec![["MACHINE", "KIND", "LINKS"].map(str::to_owned).to_vec()];
    let kinds = lab.hosts.keys().map(|h| (h, "host")).chain(lab.nodes.keys().map(|n| (n, "node")));
    for (machine, kind) in kinds {
        let mut links = Vec::new();
        for ([a, b], _) in &lab.links {
            for (this, other) in [(a, b), (b, a)] {
                if this.machine == *machine {
                    links.push(format!("{} to {}:{}", this.interface, other.machine, other.interface));
                }
            }
        }
        rows.push(vec![machine.clone(), kind.into(), links.join(", ")]);
    }
    rows
}

fn make(step: &Step, lab: &Lab, beside: &Path, state: &mut State) -> Result<(), Failure> {
    let ns = |machine: &str| namespace(&lab.name, machine);
    match step {
        Step::Machine(machine) => {
            // Kept before it is made: what is kept and not there harms nothing.
            state.machines.push(machine.clone());
            state.keep()?;
            ip(&["netns", "add", &ns(machine)])?;
            ip(&["-n", &ns(machine), "link", "set", "lo", "up"])?;
        }
        Step::Link { ends: [a, b], whole } => {
            let (na, nb) = (ns(&a.machine), ns(&b.machine));
            ip(&[
                "-n",
                &na,
                "link",
                "add",
                &a.interface,
                "type",
                "veth",
                "peer",
                "name",
                &b.interface,
                "netns",
                &nb,
            ])?;
            for (ns, interface) in [(&na, &a.interface), (&nb, &b.interface)] {
                if !whole {
                    ip(&["-n", ns, "link", "set", interface, "gso_max_segs", "1"])?;
                }
                ip(&["-n", ns, "link", "set", interface, "up"])?;
            }
        }
        Step::Address { end, address } => {
            let mut words = vec!["-n", "", "addr", "add", address.as_str(), "dev", &end.interface];
            let ns = ns(&end.machine);
            words[1] = &ns;
            if address.contains(':') {
                words.push("nodad");
            }
            ip(&words)?;
        }
        Step::Gateway { machine, gateway } => {
            let family = if gateway.contains(':') { "-6" } else { "-4" };
            ip(&["-n", &ns(machine), family, "route", "add", "default", "via", gateway])?;
        }
        Step::Silent(machine) => {
            let off = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run_program(inside(&ns(machine), "sh").args(["-c", off]), "sh")?;
        }
        Step::Wire(config) => {
            let file = state.path("wire.click");
            std::fs::write(&file, config)?;
            let log = state.path("wire.log");
            let mut command = inside(&ns(WIRE), &ourselves().display().to_string());
            state.wire = Some(start(command.arg("run").arg(&file), &log)?);
            state.keep()?;
            ready(state.wire.as_ref(), &log, "the links with a delay, a loss or a rate", || {
                listens(&ns(WIRE))
            })?;
        }
        Step::Node(name) => {
            let mut command = state.node_command(name, &lab.nodes[name], beside);
            let log = state.path(&format!("{name}.log"));
            let process = start(&mut command, &log)?;
            state.nodes.insert(
                name.clone(),
                state::Node { process, node: lab.nodes[name].clone(), beside: beside.to_owned() },
            );
            state.keep()?;
            let process = state.nodes.get(name).map(|n| &n.process);
            ready(process, &log, &format!("the node {name}"), || weir(&ns(name), &["ps"]).is_ok())?;
        }
        Step::Graph(i) => {
            let graph = &lab.graphs[*i];
            let file = beside.join(&graph.file).display().to_string();
            weir(&ns(&graph.node), &["apply", &file])?;
        }
        Step::Program { machine, command } => {
            let log = state.path(&format!("{machine}.log"));
            start(inside(&ns(machine), "sh").args(["-c", command]), &log)?;
        }
    }
    Ok(())
}

/// Whether all interfaces of the wire are in the hands of its program: each has a packet socket.
fn listens(namespace: &str) -> bool {
    let count = |file: &str| {
        let text = run_program(inside(namespace, "cat").arg(file), "cat").unwrap_or_default();
        text.lines().count()
    };
    // Two lines of titles and the loopback interface in the one, a line of titles in the other.
    let interfaces = count("/proc/net/dev").saturating_sub(3);
    interfaces > 0 && count("/proc/net/packet").saturating_sub(1) >= interfaces
}

/// Waits until a program of the lab is ready.
fn ready(
    process: Option<&Process>,
    log: &Path,
    what: &str,
    mut is_ready: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let ended = || !process.is_some_and(Process::works);
    if wait(|| ended() || is_ready()) && !ended() {
        return Ok(());
    }
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    let how = if ended() { "ended" } else { "is not ready" };
    Err(Failure::refused(format!("{what} {how}; its last output: {}", last.join("; "))))
}

/// This program, asking the node of a machine.
fn weir(namespace: &str, arguments: &[&str]) -> Result<String, Failure> {
    let mut command = inside(namespace, &ourselves().display().to_string());
    run_program(command.args(arguments), &format!("weir {}", arguments.join(" ")))
}

fn exec(args: &ExecArgs) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let lab = one(args.lab.as_deref())?;
    if args.machine == WIRE || !lab.machines.contains(&args.machine) {
        let known = || lab.machines.iter().map(String::as_str).filter(|m| *m != WIRE);
        let near = weir_model::nearest::nearest(&args.machine, known());
        let all: Vec<&str> = known().collect();
        let text = format!(
            "the lab {} has no machine '{}'{near}; it has: {}",
            lab.name,
            args.machine,
            all.join(", ")
        );
        return Err(Failure::refused(text));
    }
    let mut command = inside(&namespace(&lab.name, &args.machine), &args.program[0]);
    let failed = command.args(&args.program[1..]).exec();
    Err(Failure::refused(format!("cannot run nsenter: {failed}; it is of the package util-linux")))
}

fn list(ui: &Ui) -> Result<(), Failure> {
    let all = labs()?;
    let text = || {
        if all.is_empty() {
            return "no labs; weir lab up FILE makes one\n".to_owned();
        }
        let mut rows = vec![["LAB", "MACHINES", "NODES"].map(str::to_owned).to_vec()];
        for lab in &all {
            let works = |(name, n): (&String, &state::Node)| match n.process.works() {
                true => name.clone(),
                false => format!("{name} (ended, see {})", lab.path(&format!("{name}.log")).display()),
            };
            let machines: Vec<&str> =
                lab.machines.iter().map(String::as_str).filter(|m| *m != WIRE).collect();
            let nodes: Vec<String> = lab.nodes.iter().map(works).collect();
            rows.push(vec![lab.name.clone(), machines.join(", "), nodes.join(", ")]);
        }
        table(&rows, &[])
    };
    Ok(ui.print(&all, text)?)
}

/// Removes all that there is of a lab.
fn down(lab: &State) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (name, node) in &lab.nodes {
        // A node knows what its functions have outside of its namespace: one that has ended is started for that.
        let ns = namespace(&lab.name, name);
        let mut process = node.process.clone();
        if !process.works() {
            let mut command = lab.node_command(name, &node.node, &node.beside);
            process = start(&mut command, &lab.path(&format!("{name}.log"))).unwrap_or(process);
        }
        if wait(|| !process.works() || weir(&ns, &["ps"]).is_ok()) && process.works() {
            let list = weir(&ns, &["--json", "ps"]).unwrap_or_default();
            let graphs: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap_or_default();
            for id in graphs.iter().filter_map(|g| g["id"].as_str()) {
                failures.extend(weir(&ns, &["delete", id]).err());
            }
        }
        process.end();
        // It may have none.
        let _ = weir(&ns, &["engine", "--socket", &lab.engine(name), "--stop"]);
    }
    for machine in &lab.machines {
        let ns = namespace(&lab.name, machine);
        if !Path::new("/run/netns").join(&ns).exists() {
            continue;
        }
        machine::processes(&ns).iter().for_each(Process::end);
        failures.extend(ip(&["netns", "del", &ns]).err());
    }
    match failures.into_iter().next() {
        // What is left can be asked for again.
        Some(failure) => Err(failure),
        None => Ok(lab.remove()?),
    }
}
