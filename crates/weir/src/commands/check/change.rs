//! Changes of a topology that are tried.

use std::str::FromStr;

use weir_topology::{LinkEnd, Topology};

/// Something that is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A link between two boxes, or two of their ports.
    Link(End, End),
    /// A box, with all its links.
    Box(String),
}

/// An end of a link: a box, and a port if it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    node: String,
    port: Option<String>,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let wrong =
            || format!("'{text}': write 'link A - B down', 'link A:PORT - B:PORT down' or 'box A down'");
        let rest = text.trim().strip_suffix("down").ok_or_else(wrong)?.trim();
        if let Some(name) = rest.strip_prefix("box ") {
            return Ok(Change::Box(name.trim().to_owned()));
        }
        let ends = rest.strip_prefix("link ").ok_or_else(wrong)?.trim();
        // Names may have a hyphen: one between blanks is surely none of theirs.
        let (a, b) = ends.split_once(" - ").or_else(|| ends.split_once('-')).ok_or_else(wrong)?;
        let end = |text: &str| {
            let (node, port) = text.trim().split_once(':').map_or((text.trim(), None), |(n, p)| (n, Some(p)));
            End { node: node.to_owned(), port: port.map(str::to_owned) }
        };
        Ok(Change::Link(end(a), end(b)))
    }
}

impl End {
    fn is(&self, end: &LinkEnd) -> bool {
        self.node == end.node && self.port.as_ref().is_none_or(|p| *p == end.port)
    }
}

impl Change {
    /// Whether a link carries nothing.
    pub(crate) fn cuts(&self, a: &LinkEnd, b: &LinkEnd) -> bool {
        match self {
            Change::Box(name) => [a, b].iter().any(|e| e.node == *name),
            Change::Link(x, y) => x.is(a) && y.is(b) || x.is(b) && y.is(a),
        }
    }

    /// What is wrong with it, if the topology has nothing of the kind.
    pub(crate) fn unknown(&self, t: &Topology) -> Option<String> {
        let cut = t.links.iter().any(|l| self.cuts(&l.a, &l.b));
        let what = match self {
            Change::Box(name) if t.node(name).is_none() => format!("there is no box '{name}'"),
            Change::Link(a, b) if !cut => format!("there is no link between {} and {}", a.text(), b.text()),
            _ => return None,
        };
        let links: Vec<String> = t.links.iter().take(8).map(ToString::to_string).collect();
        Some(format!("--what-if: {what}; links here: {}", links.join(", ")))
    }
}

impl End {
    fn text(&self) -> String {
        match &self.port {
            Some(port) => format!("{}:{port}", self.node),
            None => self.node.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_name_links_and_boxes() {
        let end = |node: &str, port: &str| LinkEnd { node: node.into(), port: port.into() };
        let link: Change = "link a:1 - b down".parse().unwrap();
        assert!(link.cuts(&end("b", "0"), &end("a", "1")) && !link.cuts(&end("b", "0"), &end("a", "2")));
        let short: Change = "link a-b down".parse().unwrap();
        assert!(short.cuts(&end("a", "2"), &end("b", "0")) && !short.cuts(&end("a", "2"), &end("c", "0")));
        let hyphens: Change = "link core-1 - core-2 down".parse().unwrap();
        assert!(hyphens.cuts(&end("core-1", "0"), &end("core-2", "0")));
        let node: Change = "box b down".parse().unwrap();
        assert!(node.cuts(&end("a", "2"), &end("b", "0")) && !node.cuts(&end("a", "2"), &end("c", "0")));
        assert!("link a b down".parse::<Change>().unwrap_err().contains("write 'link A - B down'"));
        assert!("box a".parse::<Change>().is_err());
    }
}
