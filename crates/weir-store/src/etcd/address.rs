//! Addresses of etcd: its members, and how a client is let in.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use weir_tls::authority::Identity;
use weir_tls::client::rooted;

/// With TLS, and without.
const WITH_TLS: &str = "etcds://";
const PLAIN: &str = "etcd://";

/// Whether a store is in etcd, by its name.
pub fn is_etcd(store: &str) -> bool {
    store.starts_with(WITH_TLS) || store.starts_with(PLAIN)
}

/// The address is none, or a file that it names is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    /// It is not written as one.
    #[error(
        "'{0}' is no address of etcd; write etcd://HOST:PORT, with more members as etcd://HOST:PORT,HOST:PORT, with TLS as etcds://HOST:PORT?ca=FILE"
    )]
    Form(String),
    /// An option is wrong.
    #[error("'{address}': {what}")]
    Option {
        /// The address.
        address: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A file is of no use.
    #[error("{option}={}: {why}", .path.display())]
    File {
        /// Which option names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    /// Where the password is from.
    pub(super) file: PathBuf,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a client speaks with etcd.
#[derive(Debug)]
pub(super) struct Address {
    /// The members, as URLs.
    pub(super) members: Vec<String>,
    pub(super) user: Option<User>,
    pub(super) tls: Option<ClientConfig>,
    /// The files of the authority and of the own certificate, for what is said when they are of no use.
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
}

/// What stands behind the question mark.
#[derive(Debug, Default)]
struct Options {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    user: Option<String>,
    password: Option<PathBuf>,
}

impl Options {
    fn read(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for part in text.split('&') {
            let known = "the options are ca=FILE, cert=FILE, key=FILE, user=NAME and password=FILE, with & between them";
            let (name, value) = part
                .split_once('=')
                .filter(|(_, v)| !v.is_empty())
                .ok_or_else(|| format!("'{part}': {known}"))?;
            let twice = match name {
                "ca" => options.ca.replace(value.into()).is_some(),
                "cert" => options.cert.replace(value.into()).is_some(),
                "key" => options.key.replace(value.into()).is_some(),
                "password" => options.password.replace(value.into()).is_some(),
                "user" => options.user.replace(value.to_owned()).is_some(),
                _ => return Err(format!("'{name}': {known}")),
            };
            if twice {
                return Err(format!("'{name}' is there twice"));
            }
        }
        Ok(options)
    }
}

fn text(option: &'static str, path: &Path) -> Result<String, NoAddress> {
    let wrong = |why: String| NoAddress::File { option, path: path.to_owned(), why };
    std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))
}

/// The password in a file: its first line.
fn password(path: &Path) -> Result<String, NoAddress> {
    let all = text("password", path)?;
    match all.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(NoAddress::File {
            option: "password",
            path: path.to_owned(),
            why: "its first line is empty; it is the password".into(),
        }),
    }
}

/// Whether a member is on this machine, so that what is said to it is heard by nobody else.
fn is_near(member: &str) -> bool {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    let ip: Result<std::net::IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

impl Address {
    /// Reads an address, and the files that it names.
    pub(super) fn read(address: &str) -> Result<Address, NoAddress> {
        let form = || NoAddress::Form(address.to_owned());
        let wrong = |what: String| NoAddress::Option { address: address.to_owned(), what };
        let (with_tls, rest) = match (address.strip_prefix(WITH_TLS), address.strip_prefix(PLAIN)) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(form()),
        };
        let (names, options) = match rest.split_once('?') {
            Some((names, options)) => (names, Options::read(options).map_err(wrong)?),
            None => (rest, Options::default()),
        };
        let scheme = if with_tls { "https" } else { "http" };
        let member = |text: &str| {
            let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
            let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
            let is_port = port.parse::<u16>().is_ok_and(|p| p > 0);
            if is_host && is_port { Ok(format!("{scheme}://{text}")) } else { Err(form()) }
        };
        let names: Vec<&str> = names.trim_end_matches('/').split(',').collect();
        let members = names.iter().map(|n| member(n)).collect::<Result<Vec<_>, _>>()?;
        let Options { ca, cert, key, user, password: file } = options;
        if !with_tls && (ca.is_some() || cert.is_some() || key.is_some()) {
            return Err(wrong("ca, cert and key are for etcds://, with TLS".into()));
        }
        let user = match (user, file) {
            (Some(name), Some(file)) => Some(User { name, password: password(&file)?, file }),
            (None, None) => None,
            _ => {
                return Err(wrong(
                    "user=NAME and password=FILE belong together; the file has the password".into(),
                ));
            }
        };
        if !with_tls && user.is_some() && !names.iter().all(|n| is_near(n)) {
            return Err(wrong("a password is sent to other machines by etcds:// only, with TLS".into()));
        }
        let tls =
            if with_tls { Some(tls(ca.as_deref(), cert.as_deref(), key.as_deref(), &wrong)?) } else { None };
        Ok(Address { members, user, tls, ca, certificate: cert })
    }
}

/// A client that knows the members by their authority, and shows its certificate.
fn tls(
    ca: Option<&Path>,
    cert: Option<&Path>,
    key: Option<&Path>,
    wrong: &dyn Fn(String) -> NoAddress,
) -> Result<ClientConfig, NoAddress> {
    let ca = ca.ok_or_else(|| {
        wrong("etcds:// needs ca=FILE, the certificate of the authority of etcd's members".into())
    })?;
    let roots = text("ca", ca)?;
    let file = |option, path: &Path, why: String| NoAddress::File { option, path: path.to_owned(), why };
    // What is wrong with the one file is not said of the other.
    let alone = rooted(&roots, None).map_err(|e| file("ca", ca, e.to_string()))?;
    match (cert, key) {
        (None, None) => Ok(alone),
        (Some(cert), Some(key)) => {
            let identity = Identity { chain: text("cert", cert)?, key: text("key", key)? };
            let with_key = || format!("{} (with key={})", cert.display(), key.display());
            rooted(&roots, Some(&identity)).map_err(|e| file("cert", Path::new(&with_key()), e.to_string()))
        }
        _ => Err(wrong("cert=FILE and key=FILE belong together".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weir_tls::authority::Authority;

    use super::*;

    fn members(text: &str) -> Result<Vec<String>, String> {
        Address::read(text).map(|a| a.members).map_err(|e| e.to_string())
    }

    #[test]
    fn an_address_names_the_members() {
        assert_eq!(members("etcd://a:2379").unwrap(), ["http://a:2379"]);
        assert_eq!(
            members("etcd://10.0.0.1:1,[fe80::1]:2/").unwrap(),
            ["http://10.0.0.1:1", "http://[fe80::1]:2"]
        );
        for bad in
            ["etcd://", "etcd://a", "etcd://a:0", "etcd://a:1,", "http://a:1", "etcd://a:1/x", "etcd://u@h:1"]
        {
            assert!(members(bad).unwrap_err().contains("write etcd://HOST:PORT"), "{bad}");
        }
        assert!(is_etcd("etcds://a:1") && !is_etcd("/var/lib/etcd"));
    }

    #[test]
    fn what_a_client_needs_is_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            dir.path().join(name).display().to_string()
        };
        let authority = Authority::new("etcd", SystemTime::now()).unwrap();
        let own = authority.server(&["a".into()], SystemTime::now()).unwrap();
        let other = authority.server(&["b".into()], SystemTime::now()).unwrap();
        let (ca, cert, key) =
            (write("ca", authority.certificate()), write("c", &own.chain), write("k", &own.key));
        let (password, empty, another) =
            (write("p", "se cret\nmore"), write("e", "\n"), write("o", &other.key));
        let all = format!("etcds://a:1,b:2?ca={ca}&cert={cert}&key={key}&user=weir&password={password}");
        let read = Address::read(&all).unwrap();
        assert_eq!(read.members, ["https://a:1", "https://b:2"]);
        assert!(read.tls.is_some());
        assert_eq!(read.user.as_ref().map(|u| (&*u.name, &*u.password)), Some(("weir", "se cret")));
        assert!(!format!("{read:?}").contains("se cret"));
        assert!(members(&format!("etcd://127.0.0.1:1?user=u&password={password}")).is_ok());
        for (bad, why) in [
            ("etcds://a:1".to_owned(), "needs ca=FILE"),
            (format!("etcd://a:1?ca={ca}"), "for etcds://"),
            (format!("etcds://a:1?ca={ca}&cert={cert}"), "belong together"),
            (format!("etcds://a:1?ca={ca}&user=u"), "belong together"),
            (format!("etcds://a:1?ca={ca}&ca={ca}"), "twice"),
            (format!("etcds://a:1?ca={ca}&pass=x"), "the options are"),
            (format!("etcds://a:1?ca={ca}&user"), "the options are"),
            (format!("etcd://a:1?user=u&password={password}"), "by etcds:// only"),
            (format!("etcds://a:1?ca={ca}&user=u&password={empty}"), "its first line is empty"),
            ("etcds://a:1?ca=/nowhere".to_owned(), "ca=/nowhere: No such file"),
            (format!("etcds://a:1?ca={password}"), "holds none in PEM"),
            (format!("etcds://a:1?ca={ca}&cert={cert}&key={another}"), "cert="),
        ] {
            let said = members(&bad).unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
