//! Carries out the steps of [`crate::reconcile`].

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_engine::protocol::{Answer, Command};

use crate::connection::{CallError, DataPlane};
use crate::node::{View, blocking};
use crate::reconcile::{LSI0, Step, Wanted, reconcile};
use crate::store::{Store, StoreError};

/// Why the steps did not come to their end.
#[derive(Debug)]
pub enum StepError {
    /// The data plane refused a step.
    Refused {
        /// The graph (or LSI-0) of the step.
        graph: String,
        /// What was wrong.
        errors: Vec<String>,
    },
    /// The data plane was lost.
    Lost(String),
    /// The store cannot be read.
    Store(StoreError),
}

/// Makes the data plane run what is wanted. Each step leaves a state from which the rest can be done later.
///
/// # Errors
/// At the first step that fails.
pub async fn perform<D: DataPlane>(
    plane: &D,
    store: &Arc<Store>,
    wanted: &[Wanted<'_>],
) -> Result<(), StepError> {
    let lost = |e: CallError| StepError::Lost(e.to_string());
    let engine = match plane.call(Command::Hello).await.map_err(lost)? {
        // A new process has made no writes, whatever the old one had.
        Answer::Hello { pid, started, .. } => format!("{pid}@{started}"),
        other => return Err(StepError::Lost(format!("it answered Hello with {other:?}"))),
    };
    let actual = match plane.call(Command::List).await.map_err(lost)? {
        Answer::Graphs { graphs } => graphs,
        other => return Err(StepError::Lost(format!("it answered List with {other:?}"))),
    };
    let process = engine.clone();
    let written = blocking(store, move |s| s.written(&process)).await.map_err(StepError::Store)?;
    for step in reconcile(wanted, &actual, &written) {
        tracing::debug!(graph = step.graph(), "{}", kind(&step));
        let graph = step.graph().to_owned();
        match carry_out(plane, store, &engine, step).await {
            Ok(()) => {}
            Err(CallError::Refused(errors)) => return Err(StepError::Refused { graph, errors }),
            Err(CallError::Lost(e)) => return Err(StepError::Lost(e)),
        }
    }
    Ok(())
}

async fn carry_out<D: DataPlane>(
    plane: &D,
    store: &Arc<Store>,
    engine: &str,
    step: Step,
) -> Result<(), CallError> {
    let load = |graph: String, config, tag| {
        let file = format!("{graph}.click");
        plane.call(Command::Load { graph, config, file, tag })
    };
    match step {
        Step::LoadGraph { graph, config, tag } | Step::SwapGraph { graph, config, tag } => {
            load(graph, config, tag).await.map(drop)
        }
        Step::LoadLsi0 { config, tag } => load(LSI0.into(), config, tag).await.map(drop),
        Step::Unload { graph } => plane.call(Command::Unload { graph }).await.map(drop),
        Step::WriteHandlers { graph, tag, writes } => {
            for (handler, value) in writes {
                let name = handler.clone();
                let write = Command::Write { graph: graph.clone(), handler, value };
                plane.call(write).await.map_err(|e| match e {
                    CallError::Refused(errors) => {
                        CallError::Refused(errors.iter().map(|e| format!("writing {name}: {e}")).collect())
                    }
                    lost => lost,
                })?;
            }
            let engine = engine.to_owned();
            if let Err(e) = blocking(store, move |s| s.set_written(&graph, &tag, &engine)).await {
                // They are made once more at the next opportunity.
                tracing::warn!("handler writes are not marked as made: {e}");
            }
            Ok(())
        }
    }
}

fn kind(step: &Step) -> &'static str {
    match step {
        Step::LoadGraph { .. } => "load",
        Step::SwapGraph { .. } => "swap",
        Step::WriteHandlers { .. } => "write handlers",
        Step::LoadLsi0 { .. } => "load LSI-0",
        Step::Unload { .. } => "unload",
    }
}

/// Graphs whose interfaces the errors of LSI-0 name.
pub fn blamed(view: &View, errors: &[String]) -> BTreeSet<String> {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.@+".contains(c);
    let words: BTreeSet<&str> = errors
        .iter()
        .flat_map(|e| e.split(|c: char| !part_of_name(c)))
        .map(|w| w.trim_end_matches('.'))
        .collect();
    let named = |id: &&String| {
        let graph = view.graphs.get(*id).map(|e| &e.graph);
        let known = view.failures.contains_key(*id);
        !known && graph.is_some_and(|g| g.attachments.iter().any(|a| words.contains(a.interface.as_str())))
    };
    view.graphs.keys().filter(named).cloned().collect()
}
