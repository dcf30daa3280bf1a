//! Bodies of requests.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use weir_api::problem::{Mistake, Problem};
use weir_model::graph::{MAX_BODY, Sap, SapKind, ServiceGraph};

/// Most bytes of a list of documents.
pub const MAX_LIST: usize = 64 << 20;

/// A request's body, or why it cannot be had.
pub type Received = Result<Bytes, BytesRejection>;

/// A document to apply.
#[derive(Debug, Clone)]
pub struct Document {
    /// What it says.
    pub graph: ServiceGraph,
    /// How it was written.
    pub text: Option<String>,
    /// The controller that it comes from. Without one it was applied at the node itself.
    pub owner: Option<String>,
}

impl Document {
    /// The same for a single node, whatever nodes it names.
    ///
    /// # Errors
    /// Access points that were apart are the same place on one node.
    pub fn on_one_node(self) -> Result<Document, Problem> {
        Ok(Document { graph: self.graph.on_one_node()?, ..self })
    }
}

impl From<ServiceGraph> for Document {
    fn from(graph: ServiceGraph) -> Document {
        Document { graph, text: None, owner: None }
    }
}

/// Scripts of their own are for graphs of the operator, and so are ports of addresses that others share: what those of tenants do is to be proved
/// first.
///
/// # Errors
/// A function has one, or an access point is one.
pub fn without_scripts(graph: &ServiceGraph) -> Result<(), Problem> {
    let share = |s: &Sap| matches!(&s.kind, SapKind::Interface { interface } if interface.share.is_some());
    if let Some(i) = graph.saps.iter().position(share) {
        let mistake = Mistake {
            path: format!("sffg.saps[{i}].interface.share"),
            message: "ports of an address are an access point, and the graph is a tenant's".into(),
            help: "ask for them by 'weir request', which says which are free".into(),
            ..Mistake::default()
        };
        let text = "only an operator may share addresses among graphs";
        return Err(Problem::new(StatusCode::FORBIDDEN, text).with([mistake]));
    }
    let Some((i, f)) = graph.functions.iter().enumerate().find(|(_, f)| f.click.is_some()) else {
        return Ok(());
    };
    let mistake = Mistake {
        path: format!("sffg.SFs[{i}].click"),
        message: format!("the function '{}' has a script of its own, and the graph is a tenant's", f.id),
        help: "use an image, or ask for it by 'weir request', which proves it".into(),
        ..Mistake::default()
    };
    Err(Problem::new(StatusCode::FORBIDDEN, "only an operator may run scripts that are no images")
        .with([mistake]))
}

/// A body that is text.
///
/// # Errors
/// It is none, or too long.
pub fn written(body: Received) -> Result<String, Problem> {
    Ok(text(&bytes(body)?)?.to_owned())
}

/// A graph document of a request's body, JSON or YAML.
pub fn document(headers: &HeaderMap, body: Received) -> Result<Document, Problem> {
    let body = bytes(body)?;
    let text = text(&body)?;
    let graph = match format(headers) {
        Format::Json => ServiceGraph::from_json(text),
        Format::Yaml => ServiceGraph::from_yaml(text),
        Format::Unknown => ServiceGraph::parse(text),
    };
    let graph = graph.map_err(Problem::from)?;
    Ok(Document { graph, text: Some(text.to_owned()), owner: None })
}

/// A document of a list: its identifier (or its place, if it has none), and the graph or what is wrong with it.
pub type Listed = (String, Result<Document, Problem>);

/// The graph documents of a list in JSON, each a map, or a text in JSON or YAML.
pub fn documents(headers: &HeaderMap, body: Received) -> Result<Vec<Listed>, Problem> {
    let body = long_bytes(body, MAX_LIST)?;
    let wrong = |what: String| Problem::new(StatusCode::BAD_REQUEST, what);
    if format(headers) == Format::Yaml {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "give a list of documents as JSON"));
    }
    let list: Vec<serde_json::Value> = serde_json::from_str(text(&body)?)
        .map_err(|e| wrong(format!("the body is no JSON list of documents: {e}")))?;
    let read = |(i, value): (usize, &serde_json::Value)| {
        let id = value.get("sffg").unwrap_or(value).get("id").and_then(|id| id.as_str());
        let id = id.map_or_else(|| format!("number {}", i + 1), str::to_owned);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let graph = if text.len() > MAX_BODY {
            Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the document is too large; at most {MAX_BODY} bytes are taken"),
            ))
        } else {
            ServiceGraph::parse(&text).map_err(Problem::from)
        };
        let id = graph.as_ref().map_or(id, |g| g.id.to_string());
        (id, graph.map(|graph| Document { graph, text: Some(text), owner: None }))
    };
    Ok(list.iter().enumerate().map(read).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
    Unknown,
}

fn format(headers: &HeaderMap) -> Format {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.ends_with("/json") || kind.ends_with("+json") {
        Format::Json
    } else if kind.ends_with("yaml") {
        Format::Yaml
    } else {
        Format::Unknown
    }
}

fn text(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))
}

/// A body of at most [`MAX_BODY`] bytes.
///
/// # Errors
/// It is larger, or did not come whole.
pub fn bytes(body: Received) -> Result<Bytes, Problem> {
    long_bytes(body, MAX_BODY)
}

/// A body of at most so many bytes.
pub fn long_bytes(body: Received, most: usize) -> Result<Bytes, Problem> {
    let large = || {
        let text = format!("the body is too large; at most {most} bytes are taken");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    match body {
        Ok(body) if body.len() > most => Err(large()),
        Ok(body) => Ok(body),
        Err(e) if e.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(large()),
        Err(e) => Err(Problem::new(e.status(), e.body_text())),
    }
}

/// A JSON object of another kind; an empty body is one without fields.
///
/// # Errors
/// It is none, or not what is asked for.
pub fn json<T: serde::de::DeserializeOwned>(body: Received) -> Result<Json<T>, Problem> {
    let body = bytes(body)?;
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    let wrong = |what: String| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is not what is asked for: {what}"))
    };
    // A list of the fields' values would be read as well.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(wrong("it is no JSON object".into()));
    }
    serde_json::from_slice(text).map(Json).map_err(|e| wrong(e.to_string()))
}
