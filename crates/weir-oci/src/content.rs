//! What an image is made of, wherever it is: manifests, a configuration, and layers.

use oci_spec::image::{Descriptor, ImageIndex, ImageManifest};
use serde::Deserialize;

use crate::{Digest, Error};

/// Largest manifest, index or configuration, in bytes.
pub(crate) const MAX_DOCUMENT: u64 = 4 << 20;
/// Most layers.
pub(crate) const MAX_LAYERS: usize = 256;
/// Largest layer as it is stored, in bytes.
pub(crate) const MAX_LAYER: u64 = 8 << 30;

/// Media types of manifests that are understood, those of Docker's that OCI has taken over too.
pub(crate) const MANIFEST_TYPES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
/// Those of indexes.
pub(crate) const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// A manifest, or a list of manifests by platform.
pub(crate) enum Document {
    Manifest(Box<ImageManifest>),
    Index(Box<ImageIndex>),
}

/// Reads a document of either kind.
pub(crate) fn document(image: &str, bytes: &[u8]) -> Result<Document, Error> {
    /// The field that distinguishes manifests from indexes.
    #[derive(Deserialize)]
    struct Kind {
        manifests: Option<serde_json::Value>,
    }
    let wrong = |e: &dyn std::fmt::Display| Error::invalid(&image, format!("its manifest is none: {e}"));
    let kind: Kind = serde_json::from_slice(bytes).map_err(|e| wrong(&e))?;
    if kind.manifests.is_some() {
        return ImageIndex::from_reader(bytes).map(|i| Document::Index(Box::new(i))).map_err(|e| wrong(&e));
    }
    ImageManifest::from_reader(bytes).map(|m| Document::Manifest(Box::new(m))).map_err(|e| wrong(&e))
}

/// The entry of an index for this machine, and of this tag, if one is asked for.
pub(crate) fn for_this_machine(
    image: &str,
    index: &ImageIndex,
    tag: Option<&str>,
) -> Result<Descriptor, Error> {
    const TAG: &str = "org.opencontainers.image.ref.name";
    let name = |d: &Descriptor| d.annotations().as_ref().and_then(|a| a.get(TAG).cloned());
    let entries: Vec<&Descriptor> =
        index.manifests().iter().filter(|d| tag.is_none() || name(d).as_deref() == tag).collect();
    if let (Some(tag), true) = (tag, entries.is_empty()) {
        let tags: Vec<String> = index.manifests().iter().filter_map(name).collect();
        return Err(Error::invalid(&image, format!("it has no tag {tag}; it has: {}", tags.join(", "))));
    }
    let fits = |d: &&&Descriptor| {
        d.platform()
            .as_ref()
            .is_none_or(|p| p.os().to_string() == "linux" && p.architecture().to_string() == architecture())
    };
    let fitting: Vec<&&Descriptor> = entries.iter().filter(fits).collect();
    match &fitting[..] {
        [one] => Ok((**one).clone()),
        [] => Err(Error::invalid(&image, format!("it has nothing for Linux on {}", architecture()))),
        // Several of one platform in a list of a registry: the first counts. A layout has them by tag.
        [first, ..] if first.platform().is_some() => Ok((**first).clone()),
        many => {
            let tags: Vec<String> = many.iter().filter_map(|d| name(d)).collect();
            let tags = tags.join(", ");
            Err(Error::invalid(&image, format!("it has several images; say which, as PATH:TAG: {tags}")))
        }
    }
}

/// This machine's architecture, by its name in Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// What a descriptor names, if that is a digest that is understood, with its length in bytes.
pub(crate) fn named(image: &str, descriptor: &Descriptor, most: u64) -> Result<(Digest, u64), Error> {
    let digest = descriptor.digest().to_string().parse().map_err(|e: String| Error::invalid(&image, e))?;
    if descriptor.size() > most {
        let what = format!("{digest} has {} bytes, and at most {most} are taken", descriptor.size());
        return Err(Error::invalid(&image, what));
    }
    Ok((digest, descriptor.size()))
}

/// Bytes, held against the digest that names them.
pub(crate) fn verified(image: &str, digest: &Digest, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let found = Digest::of(&bytes);
    if found == *digest { Ok(bytes) } else { Err(mismatch(image, digest, &found)) }
}

/// That content is not what its name says.
pub(crate) fn mismatch(image: &str, wanted: &Digest, found: &Digest) -> Error {
    Error::invalid(
        &image,
        format!("what was got for {wanted} has the digest {found}: it was damaged or changed"),
    )
}
