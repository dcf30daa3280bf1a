//! `weir request`, `weir query` and `weir accounting`.

use std::path::PathBuf;

use weir_api::accounting::AccountingRecord;
use weir_api::requests::{ModuleAddress, RequestAnswer};

use super::read;
use super::remote::NodeArgs;
use crate::ui::{Failure, Ui, table};

/// Options of `weir request`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The request: Click configurations, links and requirements; - is standard input
    file: Option<PathBuf>,
    /// End it after so many seconds
    #[arg(short = 'm', long, value_name = "SECONDS", requires = "file")]
    lifetime: Option<u64>,
    /// Show a request that runs
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "end"])]
    show: Option<String>,
    /// End a request
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    end: Option<String>,
    /// List the modules in sandboxes, and what their enforcers let out
    #[arg(long, conflicts_with_all = ["file", "show", "end"])]
    enforcers: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir query`.
#[derive(Debug, clap::Args)]
pub(crate) struct QueryArgs {
    /// The request, or requirements alone; - is standard input
    file: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

/// Options of `weir accounting`.
#[derive(Debug, clap::Args)]
pub(crate) struct AccountingArgs {
    /// Of this request only
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Without modules that ended before that, in seconds since 1970
    #[arg(long, value_name = "SECONDS")]
    since: Option<u64>,
    /// One record a line, as JSON
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn accounting(args: &AccountingArgs, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    let records = client.accounting(args.request.as_deref(), args.since)?.records;
    if args.lines {
        let line = |r: &AccountingRecord| serde_json::to_string(r).unwrap_or_default() + "\n";
        let lines: String = records.iter().map(line).collect();
        return Ok(ui.print(&records, || lines)?);
    }
    Ok(ui.print(&records, || accounts(&records))?)
}

fn accounts(records: &[AccountingRecord]) -> String {
    if records.is_empty() {
        return "no modules ran\n".into();
    }
    let head = ["REQUEST", "MODULE", "TENANT", "NODE", "KIND", "SECONDS", "STATE", "PACKETS IN", "BYTES IN"];
    let head = head.iter().chain(&["PACKETS OUT", "BYTES OUT", "CPU S", "MEMORY"]);
    let mut rows = vec![head.map(|h| (*h).to_owned()).collect::<Vec<_>>()];
    for r in records {
        rows.push(vec![
            r.request.clone(),
            r.module.clone(),
            r.tenant.clone().unwrap_or_else(|| "-".into()),
            r.node.clone(),
            r.kind.clone(),
            r.seconds.to_string(),
            if r.ended.is_some() { "ended" } else { "running" }.to_owned(),
            r.packets_in.to_string(),
            r.bytes_in.to_string(),
            r.packets_out.to_string(),
            r.bytes_out.to_string(),
            format!("{:.3}", r.cpu as f64 / 1e6),
            r.memory.to_string(),
        ]);
    }
    table(&rows, &[5, 7, 8, 9, 10, 11, 12])
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let client = args.node.client()?;
    match (&args.file, &args.show, &args.end) {
        (Some(file), ..) => {
            let answer = client.make_request(&read(file)?, args.lifetime)?;
            Ok(ui.print(&answer, || text(&answer))?)
        }
        (_, Some(id), _) => {
            let details = client.request_details(id)?;
            Ok(ui
                .print(&details, || format!("{}\n{}\n", text(&details.answer), details.request.trim_end()))?)
        }
        (.., Some(id)) => Ok(client.end_request(id)?),
        _ if args.enforcers => {
            let found = enforced(client.requests()?.requests);
            Ok(ui.print(&found, || enforcers(&found))?)
        }
        _ => {
            let requests = client.requests()?.requests;
            Ok(ui.print(&requests, || list(&requests))?)
        }
    }
}

pub(crate) fn query(args: &QueryArgs, ui: &Ui) -> Result<(), Failure> {
    let answer = args.node.client()?.query_request(&read(&args.file)?)?;
    Ok(ui.print(&answer, || text(&answer))?)
}

fn list(requests: &[RequestAnswer]) -> String {
    if requests.is_empty() {
        return "no requests; 'weir request FILE' makes one\n".into();
    }
    let mut rows = vec![["ID", "TENANT", "NODE", "MODULES", "ENDS"].map(str::to_owned).to_vec()];
    for r in requests {
        let modules: Vec<String> = r.modules.iter().map(place).collect();
        rows.push(vec![
            r.id.clone().unwrap_or_default(),
            r.tenant.clone().unwrap_or_else(|| "-".into()),
            r.node.clone(),
            modules.join(", "),
            r.until.map_or("-".into(), |u| u.to_string()),
        ]);
    }
    table(&rows, &[])
}

fn place(m: &ModuleAddress) -> String {
    let ports = m.ports.as_ref().map_or(String::new(), |ports| format!(":{ports}"));
    format!("{} {}{ports}", m.name, m.address)
}

/// Those that have modules in sandboxes, with these modules alone.
fn enforced(mut requests: Vec<RequestAnswer>) -> Vec<RequestAnswer> {
    for r in &mut requests {
        r.modules.retain(|m| m.sandbox.is_some());
    }
    requests.retain(|r| !r.modules.is_empty());
    requests
}

fn enforcers(requests: &[RequestAnswer]) -> String {
    if requests.is_empty() {
        return "no module runs in a sandbox\n".into();
    }
    let head = ["ID", "TENANT", "NODE", "MODULE", "ADDRESS", "KIND", "MAY SEND TO", "ANSWERS FOR", "ENDS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for r in requests {
        for m in &r.modules {
            let rules = m.enforcer.as_ref();
            let to = rules.map(|e| e.destinations.join(", ")).filter(|to| !to.is_empty());
            rows.push(vec![
                r.id.clone().unwrap_or_default(),
                r.tenant.clone().unwrap_or_else(|| "-".into()),
                r.node.clone(),
                m.name.clone(),
                m.address.clone(),
                m.sandbox.clone().unwrap_or_default(),
                to.unwrap_or_else(|| "-".into()),
                rules.map_or("-".into(), |e| format!("{} s", e.answers)),
                r.until.map_or("-".into(), |u| u.to_string()),
            ]);
        }
    }
    table(&rows, &[])
}

fn text(answer: &RequestAnswer) -> String {
    let mut text = match &answer.id {
        Some(id) => format!("{id} runs at node {}\n", answer.node),
        None => format!("all holds on {}\n", answer.node),
    };
    if let Some(until) = answer.until {
        text += &format!("  ends at {until} (seconds since 1970)\n");
    }
    for m in &answer.modules {
        let ports = match (&m.ports, m.protocols.as_deref()) {
            (None, _) => "all protocols and ports".to_owned(),
            (Some(ports), None | Some("all")) => format!("ports {ports} of TCP and UDP"),
            (Some(ports), Some(protocol)) => format!("ports {ports} of {}", protocol.to_uppercase()),
        };
        text += &format!("  {}: {}, {ports}\n", m.name, m.address);
        if let Some(name) = &m.name_in_dns {
            text += &format!("    {name}\n");
        }
        if let Some(kind) = &m.sandbox {
            text += &format!("    in a sandbox: a function of its own (kind {kind}) behind an enforcer\n");
        }
        if let Some(rules) = &m.enforcer {
            let to = match rules.destinations.join(", ") {
                none if none.is_empty() => "nobody".into(),
                to => to,
            };
            text += &format!("    it may send to {to}, and answer for {} seconds\n", rules.answers);
        }
    }
    for f in &answer.findings {
        text += &format!("  {}: {}: {}\n", f.verdict.name(), f.requirement, f.reason);
        if let Some(packet) = &f.packet {
            text += &format!("    {packet}\n");
        }
    }
    text
}
