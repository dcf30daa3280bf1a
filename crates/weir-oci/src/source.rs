//! Where an image is.

use std::fmt;
use std::path::{Path, PathBuf};

use oci_client::Reference;

use crate::{Digest, Error};

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder in the OCI image layout, or an archive of one or of `docker save`.
    Path {
        /// The folder or file.
        path: PathBuf,
        /// Which of its images, if it has several.
        tag: Option<String>,
    },
    /// A repository of a registry, with a tag or a digest.
    Registry(Reference),
}

impl Source {
    /// Reads a source: a path that begins with `/`, `./` or `../`, with a tag after a colon if need be; or
    /// `HOST/REPOSITORY:TAG`, or `HOST/REPOSITORY@DIGEST`. Paths are those of a folder.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str, folder: &Path) -> Result<Source, Error> {
        let wrong = |what: String| Error::Source { text: text.to_owned(), what };
        if ["/", "./", "../"].iter().any(|start| text.starts_with(start)) {
            if let Some((path, _)) = text.rsplit_once("@sha256:") {
                let what = format!(
                    "a path has no digest: write {path} or {path}:TAG; what is there is pinned as it is used"
                );
                return Err(wrong(what));
            }
            let (path, tag) = match text.rsplit_once(':') {
                Some((path, tag)) if !tag.contains('/') && !tag.is_empty() => (path, Some(tag.to_owned())),
                _ => (text, None),
            };
            return Ok(Source::Path { path: folder.join(path), tag });
        }
        // References without a host mean a certain company's registry elsewhere: here a host is named.
        let host = text.split_once('/').map_or("", |(host, _)| host);
        if !host.contains(['.', ':']) && host != "localhost" {
            let what = "write HOST/REPOSITORY:TAG or HOST/REPOSITORY@sha256:…, or a path that begins with ./";
            return Err(wrong(what.to_owned()));
        }
        let reference: Reference = text.parse().map_err(|e| wrong(format!("{e}")))?;
        if let Some(digest) = reference.digest() {
            digest.parse::<Digest>().map_err(wrong)?;
        }
        Ok(Source::Registry(reference))
    }

    /// The digest, if the source names one.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Source::Path { .. } => None,
            Source::Registry(reference) => reference.digest()?.parse().ok(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Path { path, tag: None } => write!(f, "{}", path.display()),
            Source::Path { path, tag: Some(tag) } => write!(f, "{}:{tag}", path.display()),
            Source::Registry(reference) => write!(f, "{}", reference.whole()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path_or_names_its_registry() {
        let parse = |text: &str| Source::parse(text, Path::new("/images/web"));
        let path =
            |path: &str, tag: Option<&str>| Source::Path { path: path.into(), tag: tag.map(Into::into) };
        assert_eq!(parse("./web.tar").unwrap(), path("/images/web/./web.tar", None));
        assert_eq!(parse("/srv/layout:1.2").unwrap(), path("/srv/layout", Some("1.2")));
        let digest = format!("sha256:{}", "a".repeat(64));
        for good in ["localhost/web", "registry:5000/a/b:1", &format!("ghcr.io/a/b@{digest}")] {
            let source = parse(good).unwrap();
            assert!(matches!(source, Source::Registry(_)), "{good}");
            assert_eq!(source.digest().is_some(), good.contains('@'), "{good}");
        }
        for (bad, message) in [
            ("nginx", "HOST/REPOSITORY"),
            ("library/nginx:1", "HOST/REPOSITORY"),
            ("ghcr.io/UPPER", "invalid reference"),
            ("ghcr.io/a@sha256:12", "invalid reference"),
            ("", "HOST"),
            ("./layout@sha256:12", "write ./layout or ./layout:TAG"),
        ] {
            let e = parse(bad).unwrap_err().to_string();
            assert!(e.contains(message), "{bad}: {e}");
        }
    }
}
