//! Registries: what speaks the OCI distribution protocol.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use docker_credential::{DockerCredential, get_credential};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::content::{self, Document, INDEX_TYPES, MANIFEST_TYPES, MAX_DOCUMENT};
use crate::{Digest, Error, Sha256Writer};

/// How long a registry may take to be reached, and then without a word.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(20);
/// Most characters of what a registry says that are shown.
const MAX_TEXT: usize = 500;
const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));
/// How long it may take for one answer in all.
const TIME: Duration = Duration::from_secs(120);

/// How registries are spoken to: over TLS, but for those of this machine and those named. Names and passwords are those that
/// `docker login` has left: in `~/.docker/config.json`, or in the folder `$DOCKER_CONFIG`.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    plain: Arc<[String]>,
}

impl Registries {
    /// With registries, `HOST:PORT`, that are spoken to without TLS.
    pub fn new(plain: Vec<String>) -> Registries {
        Registries { plain: plain.into() }
    }

    fn client(&self, reference: &Reference) -> Client {
        static CRYPTO: Once = Once::new();
        // It fails if the program has chosen already.
        CRYPTO.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let plain = self.is_plain(reference.resolve_registry());
        Client::new(ClientConfig {
            protocol: if plain { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIME),
            read_timeout: Some(SILENCE),
            user_agent: USER_AGENT,
            ..ClientConfig::default()
        })
    }

    /// Whether a registry is spoken to without TLS.
    fn is_plain(&self, registry: &str) -> bool {
        let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
        let here = host == "localhost"
            || host.trim_matches(['[', ']']).parse().is_ok_and(|a: IpAddr| a.is_loopback());
        here || self.plain.iter().any(|p| p == registry)
    }

    /// The manifest of an image for this machine; lists of manifests by platform are followed.
    pub(crate) async fn manifest(&self, reference: &Reference) -> Result<(Digest, Vec<u8>), Error> {
        let (client, auth) = (self.client(reference), credentials(reference));
        let image = reference.whole();
        let accepted: Vec<&str> = MANIFEST_TYPES.iter().chain(&INDEX_TYPES).copied().collect();
        let mut reference = reference.clone();
        for _ in 0..3 {
            let bytes = limited(&image, self.document(&client, &reference, &auth, &accepted)).await?;
            if bytes.len() as u64 > MAX_DOCUMENT {
                let what =
                    format!("its manifest is longer than the {MAX_DOCUMENT} bytes that are read of one");
                return Err(Error::invalid(&image, what));
            }
            let found = Digest::of(&bytes);
            if let Some(wanted) = reference.digest() {
                let wanted = wanted.parse().map_err(|e: String| Error::invalid(&image, e))?;
                if wanted != found {
                    return Err(content::mismatch(&image, &wanted, &found));
                }
            }
            let index = match content::document(&image, &bytes)? {
                Document::Manifest(_) => return Ok((found, bytes)),
                Document::Index(index) => index,
            };
            let (digest, _) =
                content::named(&image, &content::for_this_machine(&image, &index, None)?, MAX_DOCUMENT)?;
            reference = reference.clone_with_digest(digest.to_string());
        }
        Err(Error::invalid(&image, "its lists of manifests lead to no manifest"))
    }

    /// A manifest, or a list of them, as the registry has it; of one that is too long, a little more than the most. (The client's own
    /// request reads an answer of any length into memory.)
    async fn document(
        &self,
        client: &Client,
        reference: &Reference,
        auth: &RegistryAuth,
        accepted: &[&str],
    ) -> Result<Vec<u8>, OciDistributionError> {
        let token = client.auth(reference, auth, RegistryOperation::Pull).await?;
        let registry = reference.resolve_registry();
        let name = reference.digest().or(reference.tag()).unwrap_or("latest");
        let scheme = if self.is_plain(registry) { "http" } else { "https" };
        let url = format!("{scheme}://{registry}/v2/{}/manifests/{name}", reference.repository());
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIME)
            .read_timeout(SILENCE)
            .user_agent(USER_AGENT)
            .build()?;
        let mut request = http.get(&url).header(reqwest::header::ACCEPT, accepted.join(", "));
        request = match (token, auth) {
            (Some(token), _) => request.bearer_auth(token),
            (None, RegistryAuth::Basic(name, password)) => request.basic_auth(name, Some(password)),
            (None, _) => request,
        };
        let mut response = request.send().await?;
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await?
            && body.len() as u64 <= MAX_DOCUMENT
        {
            body.extend_from_slice(&bytes);
        }
        match response.status().as_u16() {
            200..300 => Ok(body),
            401 => Err(OciDistributionError::UnauthorizedError { url }),
            code => Err(match serde_json::from_slice(&body) {
                Ok(envelope) => OciDistributionError::RegistryError { envelope, url },
                Err(_) => {
                    let message = String::from_utf8_lossy(&body).into_owned();
                    OciDistributionError::ServerError { code, url, message }
                }
            }),
        }
    }

    /// Writes what a digest names.
    pub(crate) async fn blob(
        &self,
        reference: &Reference,
        descriptor: &oci_spec::image::Descriptor,
        most: u64,
        out: impl Write,
    ) -> Result<(), Error> {
        let image = reference.whole();
        let (digest, size) = content::named(&image, descriptor, most)?;
        let client = self.client(reference);
        client.store_auth_if_needed(reference.resolve_registry(), &credentials(reference)).await;
        let layer = oci_client::manifest::OciDescriptor {
            digest: digest.to_string(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            ..oci_client::manifest::OciDescriptor::default()
        };
        let mut stream = limited(&image, client.pull_blob_stream(reference, &layer)).await?.stream;
        let mut writer = Sha256Writer::new(out);
        let mut length = 0;
        loop {
            let next = timeout(SILENCE, stream.next()).await.map_err(|_| silent(&image))?;
            let Some(bytes) = next else { break };
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // The client compares the digest of the whole as well, and has fewer words for it.
                Err(_) if length == size => break,
                Err(e) => return Err(broken(&image, &e)),
            };
            length += bytes.len() as u64;
            if length > size {
                return Err(Error::invalid(&image, format!("{digest} is longer than its {size} bytes")));
            }
            writer.write_all(&bytes).map_err(Error::io(format!("keep a part of {image}")))?;
        }
        let (_, found, _) = writer.finish();
        if found == digest { Ok(()) } else { Err(content::mismatch(&image, &digest, &found)) }
    }

    /// Puts content and a manifest that names it into a registry.
    pub(crate) async fn push(
        &self,
        reference: &Reference,
        blobs: Vec<Vec<u8>>,
        manifest: Vec<u8>,
    ) -> Result<(), Error> {
        let image = reference.whole();
        let client = self.client(reference);
        limited(&image, client.auth(reference, &credentials(reference), RegistryOperation::Push)).await?;
        for blob in blobs {
            let digest = Digest::of(&blob).to_string();
            limited(&image, client.push_blob(reference, blob, &digest)).await?;
        }
        let kind = MANIFEST_TYPES[0]
            .parse()
            .map_err(|_| Error::invalid(&image, "internal error: its media type"))?;
        limited(&image, client.push_manifest_raw(reference, manifest, kind)).await?;
        Ok(())
    }

    /// The tags of a repository.
    ///
    /// # Errors
    /// The registry does not say.
    pub async fn tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        let client = self.client(reference);
        let auth = credentials(reference);
        Ok(limited(&reference.whole(), client.list_tags(reference, &auth, None, None)).await?.tags)
    }
}

/// Who asks. Without an entry for the registry, nobody in particular.
fn credentials(reference: &Reference) -> RegistryAuth {
    match get_credential(reference.resolve_registry()) {
        Ok(DockerCredential::UsernamePassword(name, password)) => RegistryAuth::Basic(name, password),
        Ok(DockerCredential::IdentityToken(token)) => RegistryAuth::Bearer(token),
        Err(_) => RegistryAuth::Anonymous,
    }
}

async fn limited<T>(
    image: &str,
    asked: impl Future<Output = Result<T, OciDistributionError>>,
) -> Result<T, Error> {
    match timeout(TIME, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(e)) => Err(refused(image, &e)),
        Err(_) => Err(silent(image)),
    }
}

fn silent(image: &str) -> Error {
    let what = "its registry did not answer in time".to_owned();
    Error::Registry { reference: image.to_owned(), what }
}

fn broken(image: &str, e: &dyn std::error::Error) -> Error {
    Error::Registry { reference: image.to_owned(), what: format!("the transfer broke off: {}", causes(e)) }
}

/// What a registry said, in words.
fn refused(image: &str, e: &OciDistributionError) -> Error {
    let what = match e {
        OciDistributionError::ImageManifestNotFoundError(_)
        | OciDistributionError::ServerError { code: 404, .. } => "the registry does not have it".to_owned(),
        OciDistributionError::RegistryError { envelope, .. }
            if envelope.errors.iter().any(|e| matches!(e.code, OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown)) =>
        {
            "the registry does not have it: look at its name, and at the tag or digest behind it".to_owned()
        }
        OciDistributionError::RegistryError { envelope, .. } => {
            let said: Vec<String> = envelope.errors.iter().map(ToString::to_string).collect();
            format!("the registry says: {}", said.join("; "))
        }
        OciDistributionError::AuthenticationFailure(_) | OciDistributionError::UnauthorizedError { .. } => {
            "the registry refuses: log in with docker login (names and passwords are read from ~/.docker/config.json, or the folder $DOCKER_CONFIG)".to_owned()
        }
        OciDistributionError::RequestError(e) if e.is_connect() => {
            format!("its registry cannot be reached ({})", causes(e))
        }
        e => causes(e),
    };
    // The text is the registry's: it goes to terminals.
    let clean: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect();
    Error::Registry { reference: image.to_owned(), what: clean }
}

/// An error with what caused it, each said once.
pub(crate) fn causes(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};

    use oci_spec::image::{Descriptor, MediaType};

    use super::*;

    /// A registry that answers all but its first page as it is given.
    fn registry(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Reference {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                _ = lines.find(String::is_empty);
                let path = first.split(' ').nth(1).unwrap_or_default();
                // Whoever asked may have heard enough.
                _ = match path {
                    "/v2/" => write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
                    ),
                    path => answer(path, &mut stream),
                };
            }
        });
        format!("{address}/box:1").parse().unwrap()
    }

    fn say(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
        write!(
            stream,
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    async fn refusal(reference: &Reference) -> String {
        Registries::default().manifest(reference).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_manifest_without_an_end_is_refused() {
        let reference = registry(|_, stream| {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b' '; 1 << 16])?;
            }
        });
        let e = refusal(&reference).await;
        assert!(e.contains("its manifest is longer than the 4194304 bytes"), "{e}");
    }

    #[tokio::test]
    async fn what_a_registry_refuses_is_said() {
        let says = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"later\u001b[2J","detail":null}]}"#;
        for (status, body, right) in [
            ("404 Not Found", "", "does not have it"),
            ("401 Unauthorized", "", "log in with docker login"),
            ("429 Too Many Requests", says, "later"),
            ("500 Internal Server Error", "no disk", "no disk"),
            ("200 OK", "{", "box:1"),
        ] {
            let e = refusal(&registry(move |_, stream| say(stream, status, body))).await;
            assert!(e.contains(right) && !e.contains('\u{1b}'), "{status}: {e}");
        }
    }

    #[tokio::test]
    async fn content_that_was_changed_is_refused_with_both_digests() {
        let reference = registry(|_, stream| say(stream, "200 OK", "changed"));
        let wanted = Digest::of(b"content");
        let digest: oci_spec::image::Digest = wanted.to_string().parse().unwrap();
        let descriptor = Descriptor::new(MediaType::ImageLayer, 7, digest);
        let mut kept = Vec::new();
        let e = Registries::default()
            .blob(&reference, &descriptor, 100, &mut kept)
            .await
            .unwrap_err()
            .to_string();
        let found = Digest::of(b"changed").to_string();
        assert!(
            e.contains(&wanted.to_string()) && e.contains(&found) && e.contains("was damaged or changed"),
            "{e}"
        );
    }
}
