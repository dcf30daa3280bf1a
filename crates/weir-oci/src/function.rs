//! Weir's function images in OCI registries: a folder with its `function.yaml` is an artifact with one layer, an archive of the
//! folder. The same folder gives the same digest everywhere, by one version of Weir.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use oci_client::Reference;
use serde_json::json;
use weir_model::template::Template;

use crate::content::{self, Document, MANIFEST_TYPES};
use crate::folder::{MAX_BYTES, ORIGIN, files, invalid, within};
use crate::registry::Registries;
use crate::unpack::decompressed;
use crate::{Digest, Error, Source};

/// The type of the artifact.
pub const ARTIFACT: &str = "application/vnd.weir.function.v1";
/// The type of its layer.
const LAYER: &str = "application/vnd.weir.function.v1.tar+gzip";
/// The empty configuration (image specification, "Guidance for an empty descriptor").
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
const EMPTY: &[u8] = b"{}";

/// A function image, packed.
#[derive(Debug)]
pub struct Packed {
    /// What it says of itself.
    pub template: Template,
    /// The digest of the manifest.
    pub digest: Digest,
    manifest: Vec<u8>,
    layer: Vec<u8>,
}

/// Packs a folder.
///
/// # Errors
/// It is no function image.
pub fn pack(folder: &Path) -> Result<Packed, Error> {
    let template = load(folder)?;
    let layer = archive(folder).map_err(Error::io(format!("pack {}", folder.display())))?;
    let descriptor = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": Digest::of(bytes).to_string(), "size": bytes.len()});
    let mut notes = json!({"org.opencontainers.image.title": template.name.to_string()});
    if let Some(version) = &template.version {
        notes["org.opencontainers.image.version"] = json!(version.to_string());
    }
    if !template.description.is_empty() {
        notes["org.opencontainers.image.description"] = json!(template.description.trim());
    }
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPES[0],
        "artifactType": ARTIFACT,
        "config": descriptor(EMPTY_TYPE, EMPTY),
        "layers": [descriptor(LAYER, &layer)],
        "annotations": notes,
    });
    let manifest = manifest.to_string().into_bytes();
    Ok(Packed { template, digest: Digest::of(&manifest), manifest, layer })
}

fn load(folder: &Path) -> Result<Template, Error> {
    let what = |e: &weir_model::template::TemplateError| {
        let cause = std::error::Error::source(e).map(|s| format!(": {s}")).unwrap_or_default();
        Error::invalid(&folder.display(), format!("{e}{cause}"))
    };
    if !folder.is_dir() {
        return Err(Error::invalid(&folder.display(), "it is no folder with a function.yaml"));
    }
    Template::load(folder).map_err(|e| what(&e))
}

fn archive(folder: &Path) -> io::Result<Vec<u8>> {
    // No time in it, so that the same folder gives the same bytes.
    let out = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(out);
    for name in files(folder)? {
        let file = File::open(folder.join(&name))?;
        let metadata = file.metadata()?;
        let mut header = tar::Header::new_ustar();
        header.set_size(metadata.len());
        header.set_mode(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
        archive.append_data(&mut header, name, file)?;
    }
    archive.into_inner()?.finish()
}

/// A repository of a registry.
///
/// # Errors
/// The text names none.
pub fn reference(text: &str) -> Result<Reference, Error> {
    match Source::parse(text, Path::new(""))? {
        Source::Registry(reference) => Ok(reference),
        Source::Path { .. } => Err(Error::Source {
            text: text.to_owned(),
            what: "it is a path; write HOST/REPOSITORY:TAG".to_owned(),
        }),
    }
}

impl Registries {
    /// Puts a function image into a registry.
    ///
    /// # Errors
    /// The registry does not take it.
    pub async fn push_function(&self, reference: &Reference, image: Packed) -> Result<(), Error> {
        self.push(reference, vec![EMPTY.to_vec(), image.layer], image.manifest).await
    }

    /// Gets a function image from a registry into a folder of images, under its own name; gives it, its folder, and its digest.
    ///
    /// # Errors
    /// The registry does not have it, it is no function image, or there is another of its name and `replace` is not asked for.
    pub async fn pull_function(
        &self,
        reference: &Reference,
        images: &Path,
        replace: bool,
    ) -> Result<(Template, PathBuf, Digest), Error> {
        let image = reference.whole();
        let (digest, manifest) = self.manifest(reference).await?;
        let Document::Manifest(manifest) = content::document(&image, &manifest)? else {
            return Err(Error::invalid(&image, "it is a list of manifests"));
        };
        let [layer] = &manifest.layers()[..] else {
            return Err(not_a_function(&image));
        };
        if layer.media_type().to_string() != LAYER {
            return Err(not_a_function(&image));
        }
        let mut packed = Vec::new();
        self.blob(reference, layer, MAX_BYTES, &mut packed).await?;
        let making = || Error::io(format!("write to {}", images.display()));
        fs::create_dir_all(images).map_err(making())?;
        let partial = images.join(format!(".{}.partial", digest.hex()));
        let placed = (|| {
            _ = fs::remove_dir_all(&partial);
            fs::create_dir(&partial).map_err(making())?;
            unpack(&packed, &partial)
                .map_err(|e| Error::invalid(&image, format!("it cannot be unpacked: {e}")))?;
            let template = load(&partial).map_err(|e| Error::invalid(&image, e.to_string()))?;
            if template.name.as_str().starts_with('.') {
                return Err(Error::invalid(
                    &image,
                    format!("its name {:?} is none of a folder", template.name.as_str()),
                ));
            }
            fs::write(partial.join(ORIGIN), format!("{}@{digest}\n", repository(reference)))
                .map_err(making())?;
            let folder = images.join(template.name.as_str());
            if folder.exists() {
                if pack(&folder).is_ok_and(|there| there.digest == digest) {
                    return Ok((template, folder));
                }
                if !replace {
                    let what =
                        format!("there is another image in {}; replace it with --replace", folder.display());
                    return Err(Error::invalid(&image, what));
                }
                let old = images.join(format!(".{}.old.partial", digest.hex()));
                fs::rename(&folder, &old).map_err(making())?;
                fs::rename(&partial, &folder).map_err(making())?;
                fs::remove_dir_all(&old).map_err(making())?;
                return Ok((template, folder));
            }
            fs::rename(&partial, &folder).map_err(making())?;
            Ok((template, folder))
        })();
        _ = fs::remove_dir_all(&partial);
        let (template, folder) = placed?;
        Ok((
            Template { origin: weir_model::template::Origin { folder: Some(folder.clone()) }, ..template },
            folder,
            digest,
        ))
    }
}

/// Where an image of a folder was pulled from, if it was.
pub fn origin(folder: &Path) -> Option<String> {
    Some(fs::read_to_string(folder.join(ORIGIN)).ok()?.trim().to_owned())
}

/// A reference without its tag and digest.
pub fn repository(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}

fn not_a_function(image: &str) -> Error {
    Error::invalid(
        &image,
        format!(
            "it is no function image ({ARTIFACT}); a container image is named in \"container\" of a function.yaml"
        ),
    )
}

/// The bytes of an archive, and their digest.
///
/// # Errors
/// It is no regular file, cannot be read, or is larger than an image may be.
pub fn read_archive(path: &Path) -> io::Result<(Digest, Vec<u8>)> {
    if !path.symlink_metadata()?.is_file() {
        return Err(invalid("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    within(bytes.len() as u64, 1)?;
    Ok((Digest::of(&bytes), bytes))
}

/// Unpacks an archive (tar, perhaps with gzip or zstd) of a function image into a folder that is there and empty.
///
/// # Errors
/// It is none, has something else than files and folders, leads out of the folder, or is larger than an image may be.
pub fn unpack(packed: &[u8], folder: &Path) -> io::Result<()> {
    // Headers are bounded with what they head: their lengths are those of others.
    let mut archive = tar::Archive::new(decompressed(packed)?.take(2 * MAX_BYTES));
    let (mut bytes, mut files) = (0, 0);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_dir()) {
            let name = entry.path()?.display().to_string();
            return Err(invalid(format!("{name} is neither a file nor a folder")));
        }
        (bytes, files) = (bytes + entry.size(), files + 1);
        within(bytes, files)?;
        if !entry.unpack_in(folder)? {
            return Err(invalid(format!("{} leads out of it", entry.path()?.display())));
        }
    }
    Ok(())
}
