//! Containers: software in an OCI image, with the graph's ports as its interfaces (COMPOSER paper, section 6.1: Docker).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::native::{self, MAX_ITEMS, MEMORY, PROCESSES, cpu, directories, is_full_path, limits};
use super::{Param, TemplatePort};
use crate::doc::{At, Reader, did_you_mean};
use crate::error::quote;

/// What a container may be allowed beyond the usual, capabilities(7) without `CAP_`: nothing by which it could reach what is not its
/// own.
pub const CAPABILITIES: [&str; 6] = ["AUDIT_WRITE", "FSETID", "IPC_LOCK", "NET_ADMIN", "NET_RAW", "SYS_NICE"];

/// Devices of the node that it may use.
const DEVICES: [&str; 1] = ["/dev/net/tun"];

/// Directories of a container that the system fills.
const SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Which container image, and how it runs. In `command`, `environment`, `addresses`, `routes`, `name-servers` and `update`,
/// `$NAME` or `${NAME}` stands for the value of a parameter, and `$$` for `$`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct Container {
    /// The image: `HOST/REPOSITORY:TAG` or `HOST/REPOSITORY@DIGEST` of a registry; or the path of a folder in the OCI layout, of
    /// an archive of one, or of an archive of `docker save`, beginning with `/`, or with `./` for one beside this document, with
    /// `:TAG` if it has several images.
    pub image: String,
    /// The program and its arguments; the image's own, if this is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Variables beside those of the image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The addresses of ports, each with its prefix length: one, or several in a list. An empty one is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, OneOrMany>")]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// The next router, by prefix (`0.0.0.0/0` for all). An empty one is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routes: BTreeMap<String, String>,
    /// The name servers that it asks. An empty one is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<String>,
    /// What it may do beside the usual: names of capabilities, such as `NET_ADMIN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Devices of the node that it may use: `/dev/net/tun`, to make network interfaces of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Settings of its own network, by names that begin with `net.`, such as `net.ipv4.ip_forward`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Most memory of all its processes, in bytes: a number with kB, MB or GB (powers of 1,024).
    #[schemars(with = "String", default = "native::memory")]
    pub memory: u64,
    /// Most processes and threads.
    #[schemars(default = "native::processes")]
    pub processes: u32,
    /// Most processor time, in thousandths of a processor; all, if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Directories that it may write to, beside `/tmp` and `/run`, which are empty at each start. They begin with what the image has
    /// there, and last until the function is removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
    /// A program of the container and its arguments, run in it when parameters or ports have changed, so that it keeps what it knows: it gets
    /// the new values in its environment. Without it the container is started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<String>,
}

/// A text, or several.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is asked for")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

pub(super) fn container(
    r: &mut Reader,
    at: &At<'_>,
    ports: &[TemplatePort],
    params: &[Param],
) -> Option<Container> {
    let known = [
        "image",
        "command",
        "environment",
        "addresses",
        "routes",
        "name-servers",
        "capabilities",
        "devices",
        "sysctls",
        "memory",
        "processes",
        "cpu",
        "writable",
        "update",
    ];
    let f = r.fields(at, &known)?;
    let image = f.need(r, "image", "the container image").and_then(|at| {
        let text = r.text(&at, "an image")?;
        if text.is_empty() || text.len() > 1_000 || text.contains(char::is_whitespace) {
            r.error(&at, format!("{} is no image", quote(text)), "write HOST/REPOSITORY:TAG, or ./FILE");
        }
        Some(text.to_owned())
    });
    let mut c = Container {
        image: image?,
        command: Vec::new(),
        environment: BTreeMap::new(),
        addresses: BTreeMap::new(),
        routes: BTreeMap::new(),
        name_servers: Vec::new(),
        capabilities: Vec::new(),
        devices: Vec::new(),
        sysctls: BTreeMap::new(),
        memory: MEMORY,
        processes: PROCESSES,
        cpu: None,
        writable: Vec::new(),
        update: Vec::new(),
    };
    let texts = Texts { params };
    for (field, list) in
        [("command", &mut c.command), ("name-servers", &mut c.name_servers), ("update", &mut c.update)]
    {
        if let Some(at) = f.get(field) {
            *list = texts.list(r, &at)?;
        }
    }
    for (field, map) in [("environment", &mut c.environment), ("routes", &mut c.routes)] {
        if let Some(at) = f.get(field) {
            for (name, node) in r.map(&at, "a map")?.entries {
                let at = at.key(name, node);
                if field == "environment" && (name.is_empty() || name.contains(['=', '\0'])) {
                    r.error(&at, format!("{} is no variable's name", quote(name)), "leave out '='");
                }
                if field == "routes"
                    && let Err(e) = name.parse::<crate::value::IpPrefix>()
                {
                    r.error(&at, e.message, e.help);
                }
                map.insert(name.clone(), texts.one(r, &at)?);
            }
        }
    }
    if let Some(at) = f.get("addresses") {
        for (port, node) in r.map(&at, "a map from ports to addresses")?.entries {
            let at = at.key(port, node);
            let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
            if !names.contains(&port.as_str()) {
                r.error(&at, format!("there is no port {}", quote(port)), did_you_mean(port, &names));
            }
            let addresses =
                if node.text().is_some() { vec![texts.one(r, &at)?] } else { texts.list(r, &at)? };
            c.addresses.insert(port.clone(), addresses);
        }
    }
    if let Some(at) = f.get("capabilities") {
        for (i, node) in r.items(&at, "capabilities", MAX_ITEMS)?.iter().enumerate() {
            let at = at.index(i, node);
            let text = r.text(&at, "a capability")?;
            let name = text.strip_prefix("CAP_").unwrap_or(text);
            if !CAPABILITIES.contains(&name) {
                let help = format!("a function may have: {}", CAPABILITIES.join(", "));
                r.error(&at, format!("{} is no capability that a function may have", quote(text)), help);
            }
            c.capabilities.push(name.to_owned());
        }
    }
    if let Some(at) = f.get("devices") {
        c.devices = texts.list(r, &at)?;
        if let Some(wrong) = c.devices.iter().find(|d| !DEVICES.contains(&d.as_str())) {
            let what = format!("{} is no device that a function may have", quote(wrong));
            r.error(&at, what, format!("a function may have: {}", DEVICES.join(", ")));
        }
    }
    if let Some(at) = f.get("sysctls") {
        for (name, node) in r.map(&at, "a map from settings to values")?.entries {
            let at = at.key(name, node);
            let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if !name.starts_with("net.") || !name.chars().all(word) || name.contains("..") {
                let what = format!("{} is no setting of a network", quote(name));
                r.error(&at, what, "write names such as net.ipv4.ip_forward");
            }
            c.sysctls.insert(name.clone(), texts.one(r, &at)?);
        }
    }
    limits(r, &f, &mut c.memory, &mut c.processes)?;
    c.cpu = cpu(r, &f)?;
    if let Some(at) = f.get("writable") {
        c.writable = directories(r, &at)?;
        let of_system = |d: &&String| {
            SYSTEM
                .iter()
                .any(|s| d.strip_prefix(s).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        };
        if let Some(wrong) = c.writable.iter().find(of_system) {
            r.error(
                &at,
                format!("{} is the system's", quote(wrong)),
                format!("leave out {}", SYSTEM.join(", ")),
            );
        }
    }
    Some(c)
}

/// Reads texts in which parameters may stand.
struct Texts<'a> {
    params: &'a [Param],
}

impl Texts<'_> {
    fn one(&self, r: &mut Reader, at: &At<'_>) -> Option<String> {
        let text = r.text(at, "text")?;
        if let Some(name) = unknown(text, self.params) {
            let names: Vec<&str> = self.params.iter().map(|p| p.name.as_str()).collect();
            let help =
                if name.is_empty() { "write $$ for a $".to_owned() } else { did_you_mean(&name, &names) };
            r.error(at, format!("${name} is no parameter"), help);
        }
        if let Some(p) = self.params.iter().find(|p| p.secret && mentions(text, &p.name)) {
            let help = format!("the program reads it from the file that is named in $PARAM_{}_FILE", p.name);
            r.error(at, format!("${} is a secret, and others would see it here", p.name), help);
        }
        if text.contains('\0') {
            r.error(at, "it has a NUL", "leave it out");
        }
        Some(text.to_owned())
    }

    fn list(&self, r: &mut Reader, at: &At<'_>) -> Option<Vec<String>> {
        let items = r.items(at, "texts", MAX_ITEMS)?;
        items.iter().enumerate().map(|(i, node)| self.one(r, &at.index(i, node))).collect()
    }
}

/// A program in a container: its full path.
pub(super) fn program(r: &mut Reader, at: &At<'_>) -> Option<String> {
    let text = r.text(at, "a program in the container")?;
    if !is_full_path(text) || text.len() > 1_000 {
        r.error(at, format!("{} is no program", quote(text)), "write its full path in the container");
        return None;
    }
    Some(text.to_owned())
}

/// Whether a parameter stands in a text.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let mut found = false;
    _ = replace(text, |n| {
        found |= n == name;
        Some("")
    });
    found
}

/// A name in a text that is no parameter's, if there is one.
pub(super) fn unknown(text: &str, params: &[Param]) -> Option<String> {
    let mut unknown = None;
    _ = replace(text, |name| {
        if !params.iter().any(|p| p.name == name) {
            unknown.get_or_insert_with(|| name.to_owned());
        }
        Some("")
    });
    unknown
}

/// A text with the values of parameters where their names stand: `$NAME` or `${NAME}`; `$$` is `$`.
pub fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    replace(text, |name| values.get(name).map(String::as_str))
}

fn replace<'v>(text: &str, mut value: impl FnMut(&str) -> Option<&'v str>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, next) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, next)) if name.chars().all(word) => (name, next),
            _ => after.split_at(after.find(|c| !word(c)).unwrap_or(after.len())),
        };
        out += value(name).unwrap_or_default();
        rest = next;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Implementation, Template};

    fn container(text: &str) -> Result<Container, String> {
        let params = "[{name: ADDRESS, type: prefix}, {name: LEVEL, type: text}]";
        let text = format!("name: f\nkind: container\nports: [lan, wan]\nparams: {params}\n{text}");
        match Template::parse(&text).map_err(|e| e.to_string())?.implementation {
            Implementation::Container { container } => Ok(container),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_container_is_read_with_defaults() {
        let c = container(
            "container:
  image: registry:5000/web:1.2
  command: [httpd, -f, \"$LEVEL\"]
  environment: {PRICE: \"1$$\"}
  addresses: {lan: $ADDRESS, wan: [10.0.0.1/24, \"fd00::1/64\"]}
  routes: {0.0.0.0/0: 10.0.0.254}
  capabilities: [CAP_NET_ADMIN]
  memory: 32 MB
  cpu: 500
  writable: [/var/cache]
",
        );
        let c = c.unwrap();
        assert_eq!((c.memory, c.processes, c.cpu), (32 << 20, PROCESSES, Some(500)));
        assert_eq!(c.addresses["wan"].len(), 2);
        assert_eq!(c.capabilities, ["NET_ADMIN"]);
        let values = BTreeMap::from([("LEVEL".to_owned(), "a $b".to_owned())]);
        assert_eq!(expand(&c.command[2], &values), "a $b");
        assert_eq!(expand(&c.environment["PRICE"], &values), "1$");
        assert_eq!(expand("x${LEVEL}y$LEVEL/$", &values), "xa $bya $b/");
    }

    #[test]
    fn mistakes_are_said_with_what_would_be_right() {
        for (text, message) in [
            ("", "container"),
            ("container: {}", "image"),
            ("container: {image: ./x, addresses: {lam: $ADDRESS}}", "no port \"lam\"; known here: lan, wan"),
            ("container: {image: ./x, addresses: {lan: $ADRESS}}", "did you mean \"ADDRESS\"?"),
            ("container: {image: ./x, command: [a, \"cost: $\"]}", "write $$ for a $"),
            ("container: {image: ./x, capabilities: [SYS_ADMIN]}", "NET_ADMIN"),
            ("container: {image: ./x, routes: {all: 10.0.0.1}}", "all"),
            ("container: {image: ./x, writable: [var]}", "full path"),
            ("container: {image: ./x, writable: [/proc/sys]}", "the system's"),
            ("container: {image: ./x, devices: [/dev/kvm]}", "/dev/net/tun"),
            ("container: {image: ./x, sysctls: {kernel.core_pattern: x}}", "net.ipv4.ip_forward"),
            ("container: {image: ./x, sysctls: {net.../../kernel.hostname: x}}", "net.ipv4.ip_forward"),
            ("container: {image: ./x, memory: 64}", "such as 64 MB"),
            ("container: {image: ./x, cpu: 0}", "1"),
            ("container: {image: ./x}\nhandlers: {status: status.sh}", "full path in the container"),
            ("container: {image: ./x}\nnative: {}", "kind: native"),
        ] {
            let e = container(text).unwrap_err();
            assert!(e.contains(message), "{text}: {e}");
        }
    }
}
