//! `weir pause`, `resume`, `bypass` and `migrate`: what a function does with packets, and where; `weir suspend`: graphs that run while packets come.

use clap_complete::engine::ArgValueCandidates;
use weir_api::functions::{FunctionLife, GraphLife, GraphLifeChange, Life, MoveKind, MoveRequest, Moved};

use super::complete;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui};

/// Options of `weir suspend`.
#[derive(Debug, clap::Args)]
pub(crate) struct SuspendArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier; without it, the graph is resumed that was suspended
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: Option<String>,
    /// Start the graph without the state that it was suspended with
    #[arg(long, conflicts_with = "function")]
    anew: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir pause` and `bypass`.
#[derive(Debug, clap::Args)]
pub(crate) struct LifeArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// The graph's identifier
    #[arg(add = ArgValueCandidates::new(complete::graphs))]
    graph: String,
    /// The function's identifier
    #[arg(add = ArgValueCandidates::new(complete::functions))]
    function: String,
    /// The node that it is to be at
    #[arg(long, value_name = "NODE")]
    to: String,
    /// How it is run there: by the graph's data plane, or in a process of its own; as it is now if this is left out
    #[arg(long, value_name = "KIND")]
    kind: Option<RunsAs>,
    /// The image that it is made of there: its name, or NAME@VERSION; the one that it has now if this is left out
    #[arg(long, value_name = "IMAGE", add = ArgValueCandidates::new(complete::images))]
    image: Option<String>,
    /// A table, as ELEMENT.TABLE, whose content may end because the other image has none that it fits
    #[arg(long, value_name = "TABLE", requires = "image")]
    leave: Vec<String>,
    /// Only say how large its state is, and how long packets would wait
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// How a function is run whose image is a Click script.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RunsAs {
    Inline,
    Process,
}

pub(crate) fn change(args: &LifeArgs, state: Life, ui: &Ui) -> Result<(), Failure> {
    let life = args.node.client()?.set_life(&args.graph, &args.function, state)?;
    ui.print(&life, || told(args, &life))?;
    Ok(())
}

pub(crate) fn suspend(args: &SuspendArgs, ui: &Ui) -> Result<(), Failure> {
    let change = GraphLifeChange { state: GraphLife::Suspended, anew: false };
    let done = args.node.client()?.set_graph_life(&args.graph, &change)?;
    let graph = &args.graph;
    ui.print(&done, || {
        format!("graph {graph} is suspended: the next packet for it starts it, or 'weir resume {graph}'\n")
    })?;
    Ok(())
}

pub(crate) fn resume(args: ResumeArgs, ui: &Ui) -> Result<(), Failure> {
    let ResumeArgs { graph, function, anew, node } = args;
    if let Some(function) = function {
        return change(&LifeArgs { graph, function, node }, Life::Running, ui);
    }
    let done = node.client()?.set_graph_life(&graph, &GraphLifeChange { state: GraphLife::Running, anew })?;
    ui.print(&done, || format!("graph {graph} runs\n"))?;
    Ok(())
}

fn told(args: &LifeArgs, life: &FunctionLife) -> String {
    let LifeArgs { graph, function, .. } = args;
    match life.state {
        Life::Running => format!("function {function} of graph {graph} runs\n"),
        Life::Stopped => format!(
            "function {function} of graph {graph} is stopped: packets wait, {} now; 'weir resume' lets it go on, 'weir bypass' leads them past it\n",
            life.waiting
        ),
        Life::Bypass => format!("packets go past function {function} of graph {graph}\n"),
    }
}

pub(crate) fn migrate(args: &MigrateArgs, ui: &Ui) -> Result<(), Failure> {
    let kind = args.kind.map(|kind| match kind {
        RunsAs::Inline => MoveKind::Inline,
        RunsAs::Process => MoveKind::Process,
    });
    let request = MoveRequest {
        to: args.to.clone(),
        kind,
        image: args.image.clone(),
        leave: args.leave.clone(),
        plan: args.plan,
    };
    let moved = args.node.client()?.move_function(&args.graph, &args.function, &request)?;
    ui.print(&moved, || moved_text(&moved))?;
    Ok(())
}

fn moved_text(moved: &Moved) -> String {
    let Moved { graph, function, from, to, bytes, waited, dropped, missing, .. } = moved;
    let milliseconds = std::time::Duration::from_micros(moved.pause_micros).as_secs_f64() * 1000.0;
    let mut tables = String::new();
    if let Some(image) = &moved.image {
        let (is, begin, end) =
            if moved.plan { ("would be", "would begin", "would end") } else { ("is", "began", "ended") };
        tables.push_str(&format!("it {is} one of {image}\n"));
        moved.begin.iter().for_each(|t| tables.push_str(&format!("the table {t} {begin} empty\n")));
        moved.end.iter().for_each(|t| tables.push_str(&format!("the content of the table {t} {end}\n")));
    }
    if moved.plan {
        let mut text = format!(
            "function {function} of graph {graph}: {bytes} bytes of state would go from node {from} to node {to}; packets would wait for about {milliseconds:.0} ms\n{tables}"
        );
        for why in &moved.refused {
            text.push_str(&format!("it would be refused unless --leave allows it: {why}\n"));
        }
        return text;
    }
    let mut text = format!(
        "function {function} of graph {graph}: at node {to} now, before at node {from}\n{bytes} bytes of state; for {milliseconds:.1} ms packets waited, {waited} of them\n{tables}"
    );
    if *dropped > 0 {
        text.push_str(&format!("{dropped} packets were dropped: there was no space for them to wait (Stopped); 'fifo' of the function says how much there is\n"));
    }
    if *missing > 0 {
        text.push_str(&format!(
            "{missing} packets were lost on links between nodes since the graph is there, or in the move\n"
        ));
    }
    if moved.left > 0 {
        text.push_str(&format!(
            "{} packets between the function's process and its graph did not arrive in time, and may be lost\n",
            moved.left
        ));
    }
    text
}
