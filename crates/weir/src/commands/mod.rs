//! The commands, one file each.

mod audit;
mod capture;
mod check;
mod complete;
mod config;
mod context;
mod controller;
mod describe;
mod dhcp;
mod doctor;
mod domain;
mod elements;
mod events;
mod fmt;
mod functions;
mod graphs;
mod handler;
mod history;
mod image;
mod images;
mod ir;
mod ir_asm;
mod ir_ebpf;
mod key;
mod lab;
mod life;
mod link;
mod live;
mod manual;
mod node;
mod openflow_switch;
mod policy;
mod profile;
mod remote;
mod requests;
mod run;
mod schema;
mod settings;
mod steps;
mod tenant;
mod top;
mod trace;
mod whoami;

use std::path::Path;

use anyhow::Context;
use clap::Subcommand;
use weir_api::functions::Life;

use crate::ui::{Failure, Ui};

pub(crate) use manual::VARIABLE as COMPLETE;
pub(crate) use settings::expand;

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a Click configuration, without a node
    Run(run::Args),
    /// Check a Click configuration, a service graph, a request or a topology without running it: its form, and what must hold
    ///
    /// Requirements stand in the document, in files and on the command line. Each holds, is violated or inconclusive; a packet
    /// that shows it is printed with its path, step by step. Exit codes: 0 all hold, 1 one is violated or the document is wrong,
    /// 2 none is violated and one is inconclusive, 3 a file cannot be read. With two documents: 0 no traffic is treated
    /// differently, 1 some is, 2 that is not known. Requirements: docs/requirements.md.
    ///
    /// Examples:
    ///
    /// weir check router.click --require 'never lan wan tcp dst port 22'
    ///
    /// weir check graph.yaml --requirements rules.txt --pcap packets.pcapng
    ///
    /// weir check network.yaml --what-if 'link core - edge down' --json
    ///
    /// weir check old.click new.click
    ///
    /// weir check router.click --coverage
    Check(check::Args),
    /// Print Click configurations in the canonical layout, or rewrite their files
    ///
    /// The layout changes where lines end and how far they are indented, never what a configuration means. Comments stay.
    Fmt(fmt::Args),
    /// Print the program that a configuration becomes, stage by stage, or its machine code
    Ir(ir::Args),
    /// List the elements, or print the manual page of one
    Elements(elements::Args),
    /// Print the JSON Schema of a kind of document, for editors
    ///
    /// Editors that know JSON Schema complete fields of a document and mark mistakes in it. For the YAML server that most
    /// use, put `# yaml-language-server: $schema=graph.schema.json` into the document's first line, after
    /// `weir schema graph > graph.schema.json`. Requests are text: their schema says what may stand on a line.
    Schema(schema::Args),
    /// Run the node daemon: service graphs come in over REST
    Node(node::Args),
    /// Run the controller of a domain of many nodes, which serves the interface of a node for all of them
    ///
    /// Nodes join it (`weir node --join`); graphs that are applied to it go to one of them.
    Controller(controller::Args),
    /// List the nodes of a domain, or the links between them
    Get(domain::GetArgs),
    /// Describe a node of a domain
    Describe(domain::DescribeArgs),
    /// Let a node get no new graphs; what it runs stays
    Cordon(domain::NodeNameArgs),
    /// Let a node get graphs again
    Uncordon(domain::NodeNameArgs),
    /// Cordon a node, and move its graphs to others; the state of their functions does not move with them
    Drain(domain::NodeNameArgs),
    /// Forget a node that runs nothing: its connection and its certificate are not taken any more
    Forget(domain::NodeNameArgs),
    /// Make a token by which nodes join a domain
    Token(domain::TokenArgs),
    /// Create a service graph on a node, or change it while it runs
    ///
    /// With --confirm the graph goes back by itself, also if the daemon ends meanwhile, unless 'weir confirm' comes in time: for changes
    /// that could cut off who makes them. A later change without --confirm keeps the graph as well; one with --confirm goes back to what
    /// was confirmed last.
    ///
    /// Examples:
    ///
    /// weir apply office.yaml -m 'the printer gets its own rule'
    ///
    /// weir apply office.yaml --confirm 60s && weir confirm office
    Apply(graphs::ApplyArgs),
    /// List the revisions of a graph that are kept: who applied them, when and why
    ///
    /// The current one has a star. Of each graph the newest 50 are kept ('weir node --revisions'), and at most 16 MB of documents; with
    /// the graph they go.
    History(history::HistoryArgs),
    /// Show what two revisions of a graph say differently
    ///
    /// Documents are compared as what they say, in YAML: how they were written makes no difference. Secrets are not shown.
    ///
    /// Examples:
    ///
    /// weir diff office         what the last change changed
    ///
    /// weir diff office 3       from revision 3 to the current one
    ///
    /// weir diff office 3 5
    Diff(history::DiffArgs),
    /// Apply the document of an earlier revision of a graph again, as a new revision
    Rollback(history::RollbackArgs),
    /// Keep a graph that was applied with --confirm, and would go back by itself
    Confirm(history::ConfirmArgs),
    /// Show what applying a service graph would change, and which images would be chosen
    Plan(graphs::PlanArgs),
    /// List the graphs of a node
    Ps(graphs::PsArgs),
    /// Watch a node live: rates, drops and their reasons, where the time goes
    ///
    /// On a terminal this is a screen with keys (? lists them); otherwise, with --once or with --json, tables of text or lines of
    /// JSON. A configuration under `weir run` has no node: its options --profile=TIME and --drops, or a control socket, tell
    /// of it. Rates are those since the reading before. Elements show the time stamp counter's cycles for each packet in the
    /// batches that were measured, one in some hundreds.
    Top(top::Args),
    /// Show the state of a graph: packets, drops and their reasons
    Show(graphs::ShowArgs),
    /// Remove a graph from a node
    Delete(graphs::GraphArgs),
    /// Read or write a handler of a function
    Handler(handler::Args),
    /// Stop a function: packets for it wait, the first 1,000 at each port ('fifo' in the document)
    ///
    /// Nothing happens in it meanwhile: its timers wait, and entries of its tables do not expire. A function that is not inline goes on with what it has.
    Pause(life::LifeArgs),
    /// Let a function go on that was stopped, or is passed by; packets that waited come first. Without a function: start a graph that was suspended
    Resume(life::ResumeArgs),
    /// End a graph that its first packet starts ('start: first-packet' in the document), with the state of its functions on disk
    ///
    /// The next packet for it starts it again, with its state: docs/requests.md.
    Suspend(life::SuspendArgs),
    /// Lead packets past a function: of two ports from each to the other; those that waited for it too
    Bypass(life::LifeArgs),
    /// Move a function of a domain to another node while it works, with its state
    ///
    /// No packet is lost or doubled, and none overtakes another of its flow, as long as not more have to wait than there is space for ('fifo' in the document): docs/migration.md.
    ///
    /// Examples:
    ///
    /// weir migrate office nat --to n2 --plan
    ///
    /// weir migrate office nat --to n2
    Migrate(life::MigrateArgs),
    /// Print the output of a function that is not inline, and of its scripts
    Logs(functions::LogsArgs),
    /// Open a shell, or run a program, inside a function that is not inline
    ///
    /// It runs in the function's network namespace, with its directories and environment, within its limits, and so only on the
    /// node's own machine, by root. In a container it sees what the container sees; beside a process it is as powerless as that, with
    /// the node's files to read; beside functions of other kinds it is root on the node, and sees all of its processes.
    ///
    /// Examples:
    ///
    /// weir shell office dns
    ///
    /// weir shell office firewall -- nft list ruleset
    Shell(functions::ShellArgs),
    /// Follow packets through a graph: each element, what it changed, how it ended
    ///
    /// The path of a packet goes on in other graphs where links lead to them, and with every copy and answer that elements
    /// make of it. While packets are followed, all graphs run step by step and so more slowly.
    Trace(trace::Args),
    /// Copy the packets of some links to a capture file or to standard output
    ///
    /// Packets are written in the order in which they pass the links, with the link as their interface and, at access points
    /// and function ports, their direction: what comes from there is inbound, what goes there outbound.
    Capture(capture::Args),
    /// List what happened on a node: changes, failures, interfaces; or follow it
    ///
    /// The node keeps the last 10,000 events. What elements print is not kept; --follow shows it. With
    /// --json each event is a line.
    ///
    /// Examples:
    ///
    /// weir events --graph firewall-nat
    ///
    /// weir events --follow --json
    Events(events::Args),
    /// Choose which nodes are asked, and as whom: list, add, use, show and remove contexts
    ///
    /// Contexts are kept in ~/.config/weir/contexts.yaml, which only its user can read. --node and WEIR_NODE go before --context and
    /// WEIR_CONTEXT, these before the current context; without any, http://127.0.0.1:7400 is asked.
    ///
    /// Examples:
    ///
    /// weir context add lab https://node.example:7400 --fingerprint sha256:… --key id_ed25519
    ///
    /// weir ps --context lab
    Context(context::Args),
    /// Say who may use a node: add, list and remove keys
    ///
    /// Examples:
    ///
    /// weir key add alice alice.pub --role operator
    ///
    /// weir key add bob bob.pub --role tenant --tenant acme
    ///
    /// weir key add carol carol.pub --role tenant --tenant acme --graph office --function firewall
    Key(key::Args),
    /// Say what tenants may have: add, list, show and remove them
    Tenant(tenant::Args),
    /// Say what is required of the graphs of a domain, whoever applies them: set, list and remove policies
    ///
    /// Examples:
    ///
    /// weir policy set no-mail --kind third-party --require 'never * * tcp dst port 25'
    ///
    /// weir policy set no-loops --require noloops --keep
    Policy(policy::Args),
    /// Say what the links between the nodes of a domain can carry, how long they take, and how tunnels go there
    ///
    /// Examples:
    ///
    /// weir link set n1 n2 --capacity '1 Gbit/s' --delay '2 ms'
    ///
    /// weir link set n1 n3 --addresses 203.0.113.1 198.51.100.3 --encapsulation wireguard
    ///
    /// weir get links
    Link(link::Args),
    /// Ask a domain for processing: modules in the Click language are proved, placed, and run at an address of their own
    ///
    /// Without a file, the requests that run are listed.
    ///
    /// Examples:
    ///
    /// weir request notify.click --lifetime 3600
    ///
    /// weir request
    ///
    /// weir request --show request-1
    ///
    /// weir request --end request-1
    Request(requests::Args),
    /// Ask what would be answered to a request, or whether requirements hold on the network; nothing is started
    Query(requests::QueryArgs),
    /// List what modules of requests have taken: time, packets, bytes, processor time, memory
    Accounting(requests::AccountingArgs),
    /// List what was changed on a node, and what was refused: who, what, before and after; or follow it
    Audit(audit::Args),
    /// Print who one is to a node
    Whoami(whoami::Args),
    /// Print a token for one request, signed with the key of the context, for other clients
    ///
    /// It is good once, for a minute. Example:
    ///
    /// curl -H "Authorization: Bearer $(weir sign GET /v1/graphs)" http://node.example:7400/v1/graphs
    Sign(whoami::SignArgs),
    /// List the images of a node with their parameters, or print all of one
    Images(images::Args),
    /// Put function images into an OCI registry, get them from there, or list them
    ///
    /// An image is a folder with function.yaml. Names and passwords of registries are those that docker login has left
    /// (~/.docker/config.json, or the folder $DOCKER_CONFIG).
    ///
    /// Examples:
    ///
    /// weir image push images/firewall registry.example:5000/weir/firewall:1.0
    ///
    /// weir image pull registry.example:5000/weir/firewall:1.0 --images /var/lib/weir/images
    Image(image::Args),
    /// Become a program inside a function; the node does it
    #[command(name = functions::EXEC, hide = true)]
    FunctionExec(functions::ExecArgs),
    /// Make workers of functions (internal)
    #[command(name = functions::ZYGOTE, hide = true)]
    Zygote,
    /// Say what this machine can do for a node, what is missing, and what is to be done about it
    ///
    /// Nothing is changed. Exit codes: 0 a node works here, and what --need names; 1 it does not. What is missing for other uses is said, and no
    /// failure.
    ///
    /// Example:
    ///
    /// weir doctor --need container --need xdp
    Doctor(doctor::Args),
    /// Make hosts, links, nodes and graphs on this machine from one file, to try things out
    ///
    /// Machines are network namespaces, so this needs root. Examples:
    ///
    /// weir lab up examples/lab/office.yaml
    ///
    /// weir lab exec client -- ping -c3 10.0.2.2
    ///
    /// weir lab down
    Lab(lab::Args),
    /// Run the data-plane process; the node starts it itself
    Engine(node::EngineArgs),
    /// Run an OpenFlow 1.3 switch between network interfaces, which obeys its controllers
    ///
    /// The image openflow-switch runs it as a function of a graph: docs/switch.md. The first interface is port 1. Needs root, or
    /// CAP_NET_RAW; it gives up all privileges before it hears a controller.
    ///
    /// Examples:
    ///
    /// weir openflow-switch --port eth1 --port eth2 --controller tcp:192.0.2.1:6653
    ///
    /// weir openflow-switch --port eth1 --port eth2 --controller punix:/run/switch.sock
    OpenflowSwitch(openflow_switch::Args),
    /// Print what makes a shell complete commands, options, graphs and elements
    ///
    /// bash: put `source <(weir completion bash)` into ~/.bashrc; zsh: `source <(weir completion zsh)` into ~/.zshrc, after
    /// compinit; fish: `weir completion fish | source` into ~/.config/fish/config.fish. The shell asks the program at each Tab,
    /// so graphs, places and elements are offered too.
    Completion(manual::CompletionArgs),
    /// Print the manual page, or write the pages of all commands
    ///
    /// To install: `weir man /usr/local/share/man/man1`, then `man weir` and `man weir-run`. To read one without:
    /// `weir man | man -l -`.
    Man(manual::ManArgs),
}

impl Command {
    /// The daemon that this runs, and the file of its settings, if it has one.
    pub(crate) fn settings(&self) -> Option<(&'static str, &Path)> {
        match self {
            Command::Node(a) => Some(("node", a.config.config.as_deref()?)),
            Command::Controller(a) => Some(("controller", a.config.config.as_deref()?)),
            _ => None,
        }
    }

    pub(crate) fn run(self, ui: &Ui) -> Result<(), Failure> {
        match self {
            Command::Run(a) => run::run(&a, ui),
            Command::Check(a) => check::run(&a, ui),
            Command::Fmt(a) => fmt::run(&a, ui),
            Command::Ir(a) => ir::run(&a, ui),
            Command::Elements(a) => elements::run(&a, ui),
            Command::Schema(a) => schema::run(&a, ui),
            Command::Node(a) => node::run(a, ui),
            Command::Controller(a) => controller::run(a, ui),
            Command::Get(a) => domain::get(&a, ui),
            Command::Describe(a) => domain::describe(&a, ui),
            Command::Cordon(a) => domain::cordon(&a, true, ui),
            Command::Uncordon(a) => domain::cordon(&a, false, ui),
            Command::Drain(a) => domain::drain(&a, ui),
            Command::Forget(a) => domain::forget(&a, ui),
            Command::Token(a) => domain::token(&a, ui),
            Command::Apply(a) => graphs::apply(&a, ui),
            Command::Plan(a) => graphs::plan(&a, ui),
            Command::History(a) => history::history(&a, ui),
            Command::Diff(a) => history::diff(&a, ui),
            Command::Rollback(a) => history::roll_back(&a, ui),
            Command::Confirm(a) => history::confirm(&a, ui),
            Command::Ps(a) => graphs::ps(&a, ui),
            Command::Top(a) => top::run(&a, ui),
            Command::Show(a) => graphs::show(&a, ui),
            Command::Delete(a) => graphs::delete(&a, ui),
            Command::Handler(a) => handler::run(&a, ui),
            Command::Pause(a) => life::change(&a, Life::Stopped, ui),
            Command::Resume(a) => life::resume(a, ui),
            Command::Suspend(a) => life::suspend(&a, ui),
            Command::Bypass(a) => life::change(&a, Life::Bypass, ui),
            Command::Migrate(a) => life::migrate(&a, ui),
            Command::Logs(a) => functions::logs(&a, ui),
            Command::Shell(a) => functions::shell(&a),
            Command::FunctionExec(a) => functions::exec(&a),
            Command::Zygote => functions::zygote(),
            Command::Trace(a) => trace::run(&a, ui),
            Command::Capture(a) => capture::run(&a, ui),
            Command::Events(a) => events::run(&a, ui),
            Command::Context(a) => context::run(&a, ui),
            Command::Key(a) => key::run(&a, ui),
            Command::Tenant(a) => tenant::run(&a, ui),
            Command::Policy(a) => policy::run(&a, ui),
            Command::Link(a) => link::run(&a, ui),
            Command::Request(a) => requests::run(&a, ui),
            Command::Query(a) => requests::query(&a, ui),
            Command::Accounting(a) => requests::accounting(&a, ui),
            Command::Audit(a) => audit::run(&a, ui),
            Command::Whoami(a) => whoami::run(&a, ui),
            Command::Sign(a) => whoami::sign_request(&a, ui),
            Command::Images(a) => images::run(&a, ui),
            Command::Image(a) => image::run(&a, ui),
            Command::Doctor(a) => doctor::run(&a, ui),
            Command::Lab(a) => lab::run(&a, ui),
            Command::Engine(a) => node::engine(&a, ui),
            Command::OpenflowSwitch(a) => openflow_switch::run(a),
            Command::Completion(a) => manual::completion(&a),
            Command::Man(a) => manual::man(&a, ui),
        }
    }
}

/// The classes of this program.
pub(crate) fn classes() -> weir_plan::Classes {
    weir_plan::Classes::with(weir_switch::CLASSES.iter().copied())
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let read = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("cannot read standard input")
    } else {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    read.map_err(Failure::Unreachable)
}

/// Whether a file is a service graph rather than a Click configuration, by its name or else by its text.
pub(crate) fn is_service_graph(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|e| e.to_str()) {
        Some("yaml" | "yml" | "json") => true,
        Some("click") => false,
        _ => text.trim_start().starts_with('{') && text.contains("flowrules"),
    }
}
